/* Columns and lists of ranges, for the module in C beside this file. Ranges are unsigned numbers of 64 bits. */

#ifndef QUORATE_COLUMNS_H
#define QUORATE_COLUMNS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 8 };

static PyObject *array_type, *typecode;

/* -- columns ------------------------------------------------------------------------------------------------ */

typedef struct {
    Py_buffer view;
    const uint64_t *at;
    Py_ssize_t count;
} Column;

typedef struct {
    Column of[MAX_COLUMNS];
    int count;
} Columns;

static inline void release(Columns *columns) {
    while (columns->count) PyBuffer_Release(&columns->of[--columns->count].view);
}

/* Take arrays of one length. Returns 0 with an exception, and has released all then. */
static inline int take(Columns *columns, PyObject *const *arrays, Py_ssize_t count) {
    columns->count = 0;
    if (count > MAX_COLUMNS) {
        PyErr_SetString(PyExc_TypeError, "too many columns");
        return 0;
    }
    while (columns->count < count) {
        Column *column = &columns->of[columns->count];
        if (PyObject_GetBuffer(arrays[columns->count], &column->view, PyBUF_SIMPLE) < 0) break;
        columns->count++;
        column->at = column->view.buf;
        column->count = column->view.len / (Py_ssize_t)sizeof(uint64_t);
        if (column->view.len % (Py_ssize_t)sizeof(uint64_t) || column->count != columns->of[0].count) {
            PyErr_SetString(PyExc_ValueError, "columns of different lengths");
            break;
        }
    }
    if (!PyErr_Occurred()) return 1;
    release(columns);
    return 0;
}

/* An array of these numbers. */
static inline PyObject *array_of(const uint64_t *numbers, Py_ssize_t count) {
    PyObject *octets = PyBytes_FromStringAndSize((const char *)numbers, count * (Py_ssize_t)sizeof(uint64_t));
    if (octets == NULL) return NULL;
    PyObject *made = PyObject_CallFunctionObjArgs(array_type, typecode, octets, NULL);
    Py_DECREF(octets);
    return made;
}

/* -- lists of ranges ---------------------------------------------------------------------------------------- */

typedef struct {
    uint64_t first, last;
} Range;

typedef struct {
    Range *at;
    Py_ssize_t count;
} Ranges;

/* The number; `beyond` is set for one that 64 bits do not hold. Returns 0 with an exception for other objects. */
static inline int number_of(PyObject *object, uint64_t *number, int *beyond) {
    *number = PyLong_AsUnsignedLongLong(object);
    if (*number != UINT64_MAX || !PyErr_Occurred()) return 1;
    if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return 0;
    PyErr_Clear();
    return *beyond = 1;
}

/* Read a list of (first, last); the caller frees `at`. Returns 0 with an exception. */
static inline int read_ranges(PyObject *list, Ranges *ranges, int *beyond) {
    ranges->at = NULL;
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "ranges are a list");
        return 0;
    }
    ranges->count = PyList_GET_SIZE(list);
    ranges->at = PyMem_Malloc((size_t)(ranges->count + 1) * sizeof(Range));
    if (ranges->at == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    for (Py_ssize_t i = 0; i < ranges->count && !*beyond; i++) {
        PyObject *pair = PyList_GET_ITEM(list, i);
        Range *range = &ranges->at[i];
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2)
            PyErr_SetString(PyExc_TypeError, "a range is a pair of numbers");
        else if (number_of(PyTuple_GET_ITEM(pair, 0), &range->first, beyond) &&
                 number_of(PyTuple_GET_ITEM(pair, 1), &range->last, beyond))
            continue;
        PyMem_Free(ranges->at);
        return 0;
    }
    return 1;
}

static inline PyObject *pair_of(uint64_t first, uint64_t last) {
    PyObject *pair = PyTuple_New(2);
    if (pair == NULL) return NULL;
    PyObject *from = PyLong_FromUnsignedLongLong(first), *to = PyLong_FromUnsignedLongLong(last);
    PyTuple_SET_ITEM(pair, 0, from);
    PyTuple_SET_ITEM(pair, 1, to);
    if (from != NULL && to != NULL) return pair;
    Py_DECREF(pair);
    return NULL;
}

static inline PyObject *triple_of(uint64_t first, uint64_t last, uint64_t value) {
    PyObject *span = PyTuple_New(3);
    if (span == NULL) return NULL;
    const uint64_t numbers[] = {first, last, value};
    for (int i = 0; i < 3; i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(numbers[i]);
        if (number == NULL) {
            Py_DECREF(span);
            return NULL;
        }
        PyTuple_SET_ITEM(span, i, number);
    }
    return span;
}

/* Append an object, whose reference the function takes over. Returns 0 with an exception. */
static inline int append(PyObject *list, PyObject *object) {
    int done = object != NULL && PyList_Append(list, object) == 0;
    Py_XDECREF(object);
    return done;
}

static inline int by_first(const void *one, const void *other) {
    const Range *a = one, *b = other;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return a->last < b->last ? -1 : a->last > b->last;
}

/* The ranges, which are sorted, with adjacent and overlapping ones joined. */
static inline PyObject *joined_list(const Range *ranges, Py_ssize_t count) {
    PyObject *found = PyList_New(0);
    for (Py_ssize_t i = 0; i < count && found != NULL;) {
        Range one = ranges[i++];
        for (; i < count && (ranges[i].first <= one.last || ranges[i].first - one.last == 1); i++)
            if (ranges[i].last > one.last) one.last = ranges[i].last;
        if (!append(found, pair_of(one.first, one.last))) Py_CLEAR(found);
    }
    return found;
}

/* -- new columns ----------------------------------------------------------------------------------------- */

typedef struct {
    uint64_t *firsts, *lasts, *values; /* `values` may be the old index of each range */
    Py_ssize_t count;
} Made;

/* Room for so many ranges. Returns 0 with an exception. */
static inline int begin(Made *made, Py_ssize_t room) {
    made->count = 0;
    made->firsts = PyMem_Malloc((size_t)(3 * room + 1) * sizeof(uint64_t));
    if (made->firsts == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    made->lasts = made->firsts + room;
    made->values = made->lasts + room;
    return 1;
}

static inline void add(Made *made, uint64_t first, uint64_t last, uint64_t value) {
    made->firsts[made->count] = first;
    made->lasts[made->count] = last;
    made->values[made->count++] = value;
}

/* As `add`, of a span that is one with the span before where both touch and have one value. */
static inline void add_span(Made *made, uint64_t first, uint64_t last, uint64_t value) {
    Py_ssize_t top = made->count - 1;
    if (top >= 0 && made->lasts[top] + 1 == first && made->values[top] == value)
        made->lasts[top] = last;
    else
        add(made, first, last, value);
}

/* The first two columns, or all three, as arrays; frees the room. */
static inline PyObject *end(Made *made, int columns) {
    PyObject *found = PyList_New(0);
    const uint64_t *const numbers[] = {made->firsts, made->lasts, made->values};
    for (int i = 0; i < columns && found != NULL; i++)
        if (!append(found, array_of(numbers[i], made->count))) Py_CLEAR(found);
    PyMem_Free(made->firsts);
    return found;
}

/* Take the columns in front of a list of ranges, and the list; see `take` and `read_ranges`. */
static inline int take_both(PyObject *const *given, Py_ssize_t count, Columns *columns, Ranges *ranges, int *beyond) {
    if (count < 3) {
        PyErr_SetString(PyExc_TypeError, "columns and a list of ranges");
        return 0;
    }
    if (!take(columns, given, 2)) return 0;
    if (read_ranges(given[2], ranges, beyond)) return 1;
    release(columns);
    return 0;
}

#endif
