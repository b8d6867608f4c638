/* What GroupTable in group_table.py does, in C. The twin has the documentation of each function. Numbers that 64 bits
 * do not hold are refused. */

#include "groups.h"

static PyObject *new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    Table *table = (Table *)type->tp_alloc(type, 0);
    if (table == NULL) return NULL;
    if (!RESERVE(table->holders, 1)) {
        Py_DECREF(table);
        return NULL;
    }
    table->holders.at[table->holders.count++] = (Holder){0};
    return (PyObject *)table;
}

static void dealloc(PyObject *self) {
    Table *table = (Table *)self;
    PyTypeObject *type = Py_TYPE(self);
    for (Py_ssize_t i = 0; i < table->groups.count; i++) {
        PyMem_Free(table->groups.at[i].parked.at);
        PyMem_Free(table->groups.at[i].others.at);
    }
    for (Py_ssize_t i = 0; i < table->holders.count; i++) PyMem_Free(table->holders.at[i].heads.at);
    void *const arrays[] = {
        table->groups.at, table->holders.at, table->free_groups.at, table->free_holders.at, table->open.at,
        table->chosen.at, table->more.at, table->by_key.at, table->by_id.at,
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) PyMem_Free(arrays[i]);
    type->tp_free(self);
    Py_DECREF(type);
}

static int read_span(PyObject *given, Span *span) {
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 3) {
        PyErr_SetString(PyExc_TypeError, "a span is a first number, a last number and a group");
        return 0;
    }
    span->first = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(given, 0));
    span->last = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(given, 1));
    span->key = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(given, 2));
    if (PyErr_Occurred()) return 0;
    if (span->first > span->last) PyErr_SetString(PyExc_ValueError, "span ends before it starts");
    return span->first <= span->last;
}

/* Do the same with each span of a list. */
static PyObject *with_each(PyObject *self, PyObject *spans, int (*one)(Table *, Span)) {
    Span span;
    if (!PyList_Check(spans)) {
        PyErr_SetString(PyExc_TypeError, "spans are a list");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(spans); i++)
        if (!read_span(PyList_GET_ITEM(spans, i), &span) || !one((Table *)self, span)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *unpark(PyObject *self, PyObject *spans) { return with_each(self, spans, unpark_span); }
static PyObject *remove_spans(PyObject *self, PyObject *spans) { return with_each(self, spans, remove_span); }
static PyObject *done(PyObject *self, PyObject *spans) { return with_each(self, spans, settle_span); }
static PyObject *rest(PyObject *self, PyObject *spans) { return with_each(self, spans, rest_span); }
static PyObject *rested(PyObject *self, PyObject *spans) { return with_each(self, spans, rested_span); }

static PyObject *park(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    Columns columns;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "three columns");
        return NULL;
    }
    if (!take(&columns, given, 3)) return NULL;
    int parked = 1;
    for (Py_ssize_t i = 0; parked && i < columns.of[0].count; i++)
        parked = park_span((Table *)self, (Span){columns.of[0].at[i], columns.of[1].at[i], columns.of[2].at[i]});
    release(&columns);
    if (!parked) return NULL;
    Py_RETURN_NONE;
}

static int read_numbers(PyObject *const *given, Py_ssize_t count, Py_ssize_t wanted, uint64_t *numbers) {
    if (count != wanted) PyErr_SetString(PyExc_TypeError, "wrong number of arguments");
    for (Py_ssize_t i = 0; i < wanted && !PyErr_Occurred(); i++) numbers[i] = PyLong_AsUnsignedLongLong(given[i]);
    return !PyErr_Occurred();
}

static PyObject *choose_ranges(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    Table *table = (Table *)self;
    uint64_t numbers[3] = {0};
    if (!read_numbers(given, count, 3, numbers) || !choose(table, numbers[0], numbers[1], numbers[2])) return NULL;
    PyObject *found = PyList_New(0);
    for (Py_ssize_t i = 0; i < table->chosen.count && found != NULL;) {
        uint64_t first = table->chosen.at[i].first, last = table->chosen.at[i++].last;
        while (i < table->chosen.count && table->chosen.at[i].first == last + 1) last = table->chosen.at[i++].last;
        if (!append(found, pair_of(first, last))) Py_CLEAR(found);
    }
    return found;
}

static PyObject *hand_over(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    Table *table = (Table *)self;
    uint64_t numbers[2] = {0};
    Made leased;
    if (!read_numbers(given, count, 2, numbers) || !begin(&leased, table->chosen.count)) return NULL;
    uint64_t left = numbers[1];
    Py_ssize_t taken = 0;
    int fine = 1;
    for (; fine && left && taken < table->chosen.count; taken++) {
        Span *span = &table->chosen.at[taken];
        if (span->last - span->first >= left) span->last = span->first + left - 1;
        left -= span->last - span->first + 1;
        fine = unpark_span(table, *span);
    }
    for (Py_ssize_t i = 0; fine && i < taken; i++) {
        Span span = table->chosen.at[i];
        fine = lease_span(table, numbers[0], span);
        if (span.key != NO_GROUP) add_span(&leased, span.first, span.last, span.key);
    }
    table->chosen.count = 0;
    PyObject *columns = fine ? end(&leased, 3) : NULL;
    if (!fine) PyMem_Free(leased.firsts);
    PyObject *made = columns == NULL ? NULL : PyList_AsTuple(columns);
    Py_XDECREF(columns);
    return made;
}

static PyObject *lease(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    Span span;
    uint64_t id = 0;
    if (count != 2 || !PyList_Check(given[1])) {
        PyErr_SetString(PyExc_TypeError, "a holder and a list of spans");
        return NULL;
    }
    if (!read_numbers(given, 1, 1, &id)) return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(given[1]); i++)
        if (!read_span(PyList_GET_ITEM(given[1], i), &span) || !lease_span((Table *)self, id, span)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *clear(PyObject *self, PyObject *nothing) {
    Table *table = (Table *)self;
    for (Py_ssize_t i = 0; i < table->holders.count; i++) table->holders.at[i].supply = 0;
    for (Py_ssize_t slot = 0; slot < table->groups.count; slot++) {
        Parked *parked = &table->groups.at[slot].parked;
        parked->head = parked->behind = 0;
        parked->count = 0;
        if (table->groups.at[slot].lives && !settle_down(table, slot)) return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *supply(PyObject *self, PyObject *of) {
    uint64_t id = 0;
    if (!read_numbers(&of, 1, 1, &id)) return NULL;
    Table *table = (Table *)self;
    Py_ssize_t slot = id ? slot_of(&table->by_id, id) : NO_HOLDER;
    return PyLong_FromUnsignedLongLong(slot < 0 ? 0 : table->holders.at[slot].supply);
}

static PyObject *holders(PyObject *self, PyObject *nothing) {
    Table *table = (Table *)self;
    PyObject *found = PyList_New(0);
    for (Py_ssize_t slot = 1; slot < table->holders.count && found != NULL; slot++)
        if (table->holders.at[slot].bound && !append(found, PyLong_FromUnsignedLongLong(table->holders.at[slot].id)))
            Py_CLEAR(found);
    for (Py_ssize_t slot = 0; slot < table->groups.count && found != NULL; slot++) {
        const Group *group = &table->groups.at[slot];
        for (Py_ssize_t i = 0; i < group->others.count && found != NULL; i++)
            if (!append(found, PyLong_FromUnsignedLongLong(group->others.at[i].holder))) Py_CLEAR(found);
    }
    return found;
}

static PyObject *rows(PyObject *self, PyObject *nothing) {
    Table *table = (Table *)self;
    PyObject *found = PyList_New(0);
    for (Py_ssize_t slot = 0; slot < table->groups.count && found != NULL; slot++) {
        const Group *group = &table->groups.at[slot];
        unsigned long long key = group->key, holder = table->holders.at[group->holder].id, parked = group->parked.count;
        unsigned long long unsettled = group->unsettled, resting = group->resting;
        if (!group->lives) continue;
        PyObject *row = Py_BuildValue("(KKKKKN)", key, holder, unsettled, resting, parked,
                                      PyBool_FromLong(group->others.count > 0));
        if (!append(found, row)) Py_CLEAR(found);
    }
    return found;
}

/* Copy who has unsettled messages of a group, and how many rest, into another table. */
static int copy_busy(const Table *table, const Group *group, Table *made) {
    if (!group->unsettled && !group->resting) return 1;
    Py_ssize_t slot = group_slot(made, group->key);
    if (slot < 0 || !bind(made, slot, table->holders.at[group->holder].id)) return 0;
    Group *twin = &made->groups.at[slot];
    twin->unsettled = group->unsettled;
    twin->resting = group->resting;
    if (!group->others.count) return 1;
    if (!RESERVE(twin->others, group->others.count)) return 0;
    memcpy(twin->others.at, group->others.at, (size_t)group->others.count * sizeof(Held));
    twin->others.count = group->others.count;
    return 1;
}

static PyObject *twin(PyObject *self, PyObject *nothing) {
    Table *table = (Table *)self;
    PyObject *made = new(Py_TYPE(self), NULL, NULL);
    for (Py_ssize_t slot = 0; slot < table->groups.count && made != NULL; slot++)
        if (!copy_busy(table, &table->groups.at[slot], (Table *)made)) Py_CLEAR(made);
    return made;
}

static Py_ssize_t length(PyObject *self) { return ((Table *)self)->by_key.count; }

#define FAST(function) (PyCFunction)(void (*)(void))function, METH_FASTCALL

static PyMethodDef METHODS[] = {
    {"park", FAST(park), "park(firsts, lasts, groups)\n\nMessages wait with their groups."},
    {"unpark", unpark, METH_O, "unpark(spans)\n\nParked messages are not ready any more; a lease follows."},
    {"remove", remove_spans, METH_O, "remove(spans)\n\nParked messages are gone."},
    {"clear", clear, METH_NOARGS, "clear()\n\nAll parked messages are gone."},
    {"choose", FAST(choose_ranges), "choose(holder, limit, rivals) -> ranges\n\nSee GroupTable."},
    {"hand_over", FAST(hand_over), "hand_over(holder, count) -> (firsts, lasts, groups)\n\nSee GroupTable."},
    {"lease", FAST(lease), "lease(holder, spans)\n\nMessages that are not parked are leased to a consumer."},
    {"done", done, METH_O, "done(spans)\n\nLeased messages are settled or given back."},
    {"rest", rest, METH_O, "rest(spans)\n\nMessages rest; later ones of their groups wait."},
    {"rested", rested, METH_O, "rested(spans)\n\nMessages rest no more."},
    {"supply", supply, METH_O, "supply(holder) -> int\n\nHow many messages are parked in the holder's groups."},
    {"holders", holders, METH_NOARGS,
     "holders() -> list\n\nThe consumers with unsettled messages of groups; one may come twice."},
    {"rows", rows, METH_NOARGS, "rows() -> list\n\n(group, holder, unsettled, resting, parked, contended) of each."},
    {"twin", twin, METH_NOARGS, "twin() -> table\n\nA table of the busy groups, without parked messages."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot TYPE_SLOTS[] = {
    {Py_tp_new, new}, {Py_tp_dealloc, dealloc}, {Py_tp_methods, METHODS}, {Py_sq_length, length}, {0, NULL},
};

static PyType_Spec TYPE = {"node.queue._group_table.Table", sizeof(Table), 0, Py_TPFLAGS_DEFAULT, TYPE_SLOTS};

static int prepare(PyObject *module) {
    PyObject *array = PyImport_ImportModule("array");
    array_type = array == NULL ? NULL : PyObject_GetAttrString(array, "array");
    Py_XDECREF(array);
    typecode = PyUnicode_InternFromString("Q");
    PyObject *type = PyType_FromSpec(&TYPE);
    int ready = array_type != NULL && typecode != NULL && type != NULL;
    if (ready) ready = PyModule_AddObjectRef(module, "Table", type) == 0;
    Py_XDECREF(type);
    return ready ? 0 : -1;
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_group_table", "The groups of a queue's messages.", 0, NULL, SLOTS, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__group_table(void) { return PyModuleDef_Init(&MODULE); }
