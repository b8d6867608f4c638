/* What the messages of a run ask for in their properties (§4.2.6.1): the part of contents.py that is made for every
 * message, in C.
 *
 * Each function here has a twin in contents.py, which runs where this module was not built, and which decides
 * wherever a function here returns None. The messages were checked when they came in. So the positions of values
 * are found by their sizes alone, and anything unexpected is left to the twin. As _contents.c does, the functions
 * read nothing but the octets between the bounds that they have checked.
 */

#include "../same_keys.h"
#include "octets.h"

typedef struct {
    Octets at[PROPERTIES]; /* of each value; NULL for a property that the list does not have */
    Octets end;
} List;

/* Find the values in the property list of the content at `content`. Returns 0 where the twin has to look. */
static int find_properties(Octets content, size_t length, List *list) {
    size_t size = u32_at(content + 3);
    if (size < HEADER_FIXED + 2 || size + OVERHEAD > length) return 0;
    Octets at = content + FRAME_SIZE + HEADER_FIXED;
    list->end = content + FRAME_SIZE + size;
    uint32_t flags = u16_at(at);
    if (flags & 3) return 0;
    at += 2;
    for (int number = 0; number < PROPERTIES; number++) {
        list->at[number] = NULL;
        if (!(flags & 0x8000u >> number)) continue;
        list->at[number] = at;
        at = KINDS[number] == TABLE ? sized_end(at, list->end) : plain_end(at, list->end, number);
        if (at == NULL) return 0;
    }
    return at == list->end;
}

/* The integer of a field value as clients write it (fields.py), or 0 for any other value. */
static int64_t integer_at(Octets at, Octets end) {
    int width = at < end ? width_of(*at) : -1;
    if (width < 1 || width > end - at - 1) return 0;
    switch (*at++) {
    case 'b': return (int8_t)*at;
    case 'B': return *at;
    case 's': case 'U': return (int16_t)u16_at(at);
    case 'u': return u16_at(at);
    case 'i': return u32_at(at);
    case 'I': return (int32_t)u32_at(at);
    case 'l': case 'L': return (int64_t)u64_at(at);
    default: return 0;
    }
}

/* The milliseconds in the header `x-delay`, 0 without it; -1 where the twin has to look. */
static int64_t delay_in(Octets table, Octets end) {
    Octets at = table + 4;
    int64_t delay = 0;
    while (at < end) {
        if (at[0] >= end - at - 1) return -1;
        Octets value = at + 1 + at[0];
        int width = width_of(*value);
        if (is_text(at + 1, at[0], "x-delay")) {
            if (*value == 'T') return -1;
            delay = integer_at(value, end);
        }
        if (width < 0 && !memchr("SxFA", *value, 4)) return -1;
        at = width < 0 ? sized_end(value + 1, end) : value + 1 + width;
        if (at == NULL || at > end) return -1;
    }
    return delay > 0 ? delay : 0;
}

typedef struct {
    int64_t delay, expiration;
    int priority;
} Asked;

/* What a message asks of its queues. Returns 0 where the twin has to look. */
static int find_asked(Octets content, size_t length, Asked *asked) {
    List list;
    if (!find_properties(content, length, &list)) return 0;
    Octets headers = list.at[HEADERS], expiration = list.at[EXPIRATION];
    asked->delay = headers == NULL ? 0 : delay_in(headers, sized_end(headers, list.end));
    asked->priority = list.at[PRIORITY] == NULL ? 0 : *list.at[PRIORITY];
    asked->expiration = -1;
    if (expiration != NULL) {
        asked->expiration = expiration_in(expiration + 1, expiration[0]);
        if (asked->expiration < 0) return 0;
    }
    return asked->delay >= 0;
}

static int add_asked(PyObject *found, size_t first, size_t last, const Asked *asked) {
    PyObject *one = Py_BuildValue("(nnLiL)", (Py_ssize_t)first, (Py_ssize_t)last, (long long)asked->delay,
                                  asked->priority, (long long)asked->expiration);
    int failed = one == NULL || PyList_Append(found, one) < 0;
    Py_XDECREF(one);
    return !failed;
}

PyDoc_STRVAR(asked_doc,
    "asked(raw, skip, lengths) -> list or None\n\n"
    "(first, last, delay, priority, expiration) of messages in a row that ask for the same, counted from 0; in\n"
    "milliseconds, -1 for no expiration. None where the twin has to look.");

static PyObject *asked(PyObject *module, PyObject *arguments) {
    Run run;
    if (!PyArg_ParseTuple(arguments, "y*ny*:asked", &run.raw, &run.skip, &run.lengths)) return NULL;
    PyObject *found = check_run(&run) ? PyList_New(0) : NULL;
    Octets at = (Octets)run.raw.buf;
    size_t first = 0;
    Asked last = {0, 0, 0}, next;
    for (size_t message = 0; found != NULL && message < run.count; message++) {
        size_t length = lengths_of(&run)[message];
        size_t skip = skip_at(&run, at);
        if (!find_asked(at + skip, length - skip, &next)) {
            Py_SETREF(found, Py_NewRef(Py_None));
            break;
        }
        int same = next.delay == last.delay && next.priority == last.priority && next.expiration == last.expiration;
        if (message && !same) {
            if (!add_asked(found, first, message - 1, &last)) Py_CLEAR(found);
            first = message;
        }
        last = next;
        at += length;
    }
    if (found != NULL && found != Py_None && run.count && !add_asked(found, first, run.count - 1, &last))
        Py_CLEAR(found);
    PyBuffer_Release(&run.raw);
    PyBuffer_Release(&run.lengths);
    return found;
}

PyDoc_STRVAR(texts_doc,
    "texts(raw, skip, lengths, number) -> list or None\n\n"
    "The octets of the short string that is property `number` of each message, the property of flag bit 15 being\n"
    "0; None for a message without it. None instead of a list where the twin has to look.");

static PyObject *texts(PyObject *module, PyObject *arguments) {
    Run run;
    int number;
    if (!PyArg_ParseTuple(arguments, "y*ny*i:texts", &run.raw, &run.skip, &run.lengths, &number)) return NULL;
    PyObject *found = NULL;
    List list;
    if (number < 0 || number >= PROPERTIES || KINDS[number] != SHORTSTR)
        PyErr_SetString(PyExc_ValueError, "no short string has this number");
    else if (check_run(&run))
        found = PyList_New((Py_ssize_t)run.count);
    Octets at = (Octets)run.raw.buf;
    for (size_t message = 0; found != NULL && message < run.count; message++) {
        size_t length = lengths_of(&run)[message];
        size_t skip = skip_at(&run, at);
        if (!find_properties(at + skip, length - skip, &list)) {
            Py_SETREF(found, Py_NewRef(Py_None));
            break;
        }
        Octets text = list.at[number];
        PyObject *value =
            text == NULL ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize((const char *)text + 1, text[0]);
        if (value == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, (Py_ssize_t)message, value);
        at += length;
    }
    PyBuffer_Release(&run.raw);
    PyBuffer_Release(&run.lengths);
    return found;
}

/* Write the wanted headers of a content into the key: the number of the name, and the value with its type. Returns
 * the octets of the key; -1 where the twin has to look. */
static int write_key(Octets content, size_t length, const Wanted *wanted, uint8_t *key) {
    List list;
    if (!find_properties(content, length, &list)) return -1;
    int size = 0;
    key[size++] = 'h';
    if (list.at[HEADERS] == NULL) return size;
    Octets end = sized_end(list.at[HEADERS], list.end);
    for (Octets at = list.at[HEADERS] + 4, next; at < end; at = next) {
        if (at[0] >= end - at - 1) return -1;
        Octets value = at + 1 + at[0];
        int width = width_of(*value), number = number_of(wanted, at + 1, at[0]);
        if (width < 0 && !memchr("SxFA", *value, 4)) return -1;
        next = width < 0 ? sized_end(value + 1, end) : value + 1 + width;
        if (next == NULL || next > end) return -1;
        if (number >= 0) size = add_value(key, size, number, value, next);
        if (size < 0) return -1;
    }
    return size;
}

PyDoc_STRVAR(header_keys_doc,
    "header_keys(raw, skip, lengths, names) -> list or None\n\n"
    "(first, count, key) of messages in a row with the same headers of these names, at most 32. Messages with the\n"
    "same key have the same values of them. None where the twin has to look.");

static PyObject *header_keys(PyObject *module, PyObject *arguments) {
    Run run;
    PyObject *names;
    Wanted wanted = {.count = 0};
    if (!PyArg_ParseTuple(arguments, "y*ny*O!:header_keys", &run.raw, &run.skip, &run.lengths, &PyTuple_Type, &names))
        return NULL;
    PyObject *found = NULL;
    if (PyTuple_GET_SIZE(names) > MAX_WANTED)
        found = Py_NewRef(Py_None);
    else if (check_run(&run) && take_wanted(names, &wanted))
        found = PyList_New(0);
    Stretches all;
    begin_stretches(&all, found);
    Octets at = (Octets)run.raw.buf;
    for (size_t message = 0; are_sought(&all) && message < run.count; message++) {
        size_t length = lengths_of(&run)[message];
        size_t skip = skip_at(&run, at);
        add_message(&all, write_key(at + skip, length - skip, &wanted, next_key(&all)));
        at += length;
    }
    found = end_stretches(&all);
    release_wanted(&wanted);
    PyBuffer_Release(&run.raw);
    PyBuffer_Release(&run.lengths);
    return found;
}

/* Read the header of the name, where it stands once and is an integer. Returns 0 where the twin has to look. */
static int find_integer(Octets content, size_t length, const Wanted *wanted, int64_t *integer) {
    List list;
    int times = 0;
    if (!find_properties(content, length, &list) || list.at[HEADERS] == NULL) return 0;
    Octets end = sized_end(list.at[HEADERS], list.end);
    for (Octets at = list.at[HEADERS] + 4, next; at < end; at = next) {
        if (at[0] >= end - at - 1) return 0;
        Octets value = at + 1 + at[0];
        int width = width_of(*value);
        if (width < 0 && !memchr("SxFA", *value, 4)) return 0;
        next = width < 0 ? sized_end(value + 1, end) : value + 1 + width;
        if (next == NULL || next > end) return 0;
        if (number_of(wanted, at + 1, at[0]) < 0) continue;
        if (!memchr("bBsUuiIlL", *value, 9)) return 0;
        *integer = integer_at(value, end);
        times++;
    }
    return times == 1;
}

PyDoc_STRVAR(integers_doc,
    "integers(raw, skip, lengths, names) -> list or None\n\n"
    "(first, count, integer) of messages in a row with the same integer in the header that is the only one of\n"
    "`names`. None where the twin has to look: some message does not have the header once, as an integer.");

static PyObject *integers(PyObject *module, PyObject *arguments) {
    Run run;
    PyObject *names;
    Wanted wanted = {.count = 0};
    if (!PyArg_ParseTuple(arguments, "y*ny*O!:integers", &run.raw, &run.skip, &run.lengths, &PyTuple_Type, &names))
        return NULL;
    PyObject *found = NULL;
    if (PyTuple_GET_SIZE(names) != 1)
        PyErr_SetString(PyExc_ValueError, "one name");
    else if (check_run(&run) && take_wanted(names, &wanted))
        found = PyList_New(0);
    Octets at = (Octets)run.raw.buf;
    int64_t last = 0, next = 0;
    size_t first = 0;
    for (size_t message = 0; found != NULL && message <= run.count; message++) {
        size_t length = message < run.count ? lengths_of(&run)[message] : 0, skip = length ? skip_at(&run, at) : 0;
        if (length && !find_integer(at + skip, length - skip, &wanted, &next)) {
            Py_SETREF(found, Py_NewRef(Py_None));
            break;
        }
        if (message && (!length || next != last)) {
            PyObject *one = Py_BuildValue("(nnL)", (Py_ssize_t)first, (Py_ssize_t)(message - first), (long long)last);
            if (one == NULL || PyList_Append(found, one) < 0) Py_CLEAR(found);
            Py_XDECREF(one);
            first = message;
        }
        last = next;
        at += length;
    }
    release_wanted(&wanted);
    PyBuffer_Release(&run.raw);
    PyBuffer_Release(&run.lengths);
    return found;
}

/* -- messages with their places in a stream (rewriting.py) ------------------------------------------------- */

#define OFFSET_NAME "\x0fx-stream-offset"

enum { OFFSET_FIELD = 25, ADDED = 4 + OFFSET_FIELD, MAX_FIELDS = 16 };

/* Whether the table between the positions has distinct names, none of them that of the offset. Returns 0 where the
 * twin has to look. */
static int is_open(Octets at, Octets end) {
    Octets names[MAX_FIELDS];
    for (int count = 0; at < end; count++) {
        if (count == MAX_FIELDS || at[0] >= end - at - 1 || is_text(at + 1, at[0], "x-stream-offset")) return 0;
        for (int before = 0; before < count; before++)
            if (!memcmp(names[before], at, (size_t)at[0] + 1)) return 0;
        names[count] = at;
        Octets value = at + 1 + at[0];
        int width = width_of(*value);
        if (width < 0 && !memchr("SxFA", *value, 4)) return 0;
        at = width < 0 ? sized_end(value + 1, end) : value + 1 + width;
        if (at == NULL || at > end) return 0;
    }
    return 1;
}

static uint8_t *put(uint8_t *to, Octets from, Octets end) {
    memcpy(to, from, (size_t)(end - from));
    return to + (end - from);
}

static uint8_t *put_u32(uint8_t *to, uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) *to++ = (uint8_t)(number >> shift);
    return to;
}

/* Write the content up to `end` with its place as the last header. Returns the position behind; NULL where the twin
 * has to look. */
static uint8_t *put_with_offset(uint8_t *to, Octets content, Octets end, int channel, uint64_t offset) {
    List list;
    if (!find_properties(content, (size_t)(end - content), &list)) return NULL;
    Octets flags = content + FRAME_SIZE + HEADER_FIXED, table = list.at[HEADERS], table_end = NULL;
    if (table != NULL && (table_end = sized_end(table, list.end), !is_open(table + 4, table_end))) return NULL;
    Octets behind = list.end;
    for (int number = PROPERTIES - 1; number > HEADERS; number--)
        if (list.at[number] != NULL) behind = list.at[number];
    *to++ = FRAME_HEADER;
    *to++ = (uint8_t)(channel >> 8);
    *to++ = (uint8_t)channel;
    to = put_u32(to, u32_at(content + 3) + (table == NULL ? ADDED : OFFSET_FIELD));
    to = put(to, content + FRAME_SIZE, flags);
    *to++ = flags[0] | 0x80 >> HEADERS;
    *to++ = flags[1];
    to = put(to, flags + 2, table == NULL ? behind : table);
    to = put_u32(to, (table == NULL ? 0 : u32_at(table)) + OFFSET_FIELD);
    if (table != NULL) to = put(to, table + 4, table_end);
    to = put(to, (Octets)OFFSET_NAME "l", (Octets)OFFSET_NAME "l" + OFFSET_FIELD - 8);
    to = put_u32(put_u32(to, (uint32_t)(offset >> 32)), (uint32_t)offset);
    to = put(to, behind, list.end);
    *to++ = FRAME_END;
    return put(to, list.end + 1, end);
}

PyDoc_STRVAR(offsets_doc,
    "offsets(raw, skip, lengths, channel, first) -> (octets, lengths, largest content header frame) or None\n\n"
    "The messages of a run with their places, from `first` on, in the header x-stream-offset. Method frames go with\n"
    "the messages that have their own. None where the twin has to look.");

static PyObject *offsets(PyObject *module, PyObject *arguments) {
    Run run;
    int channel;
    long long first;
    if (!PyArg_ParseTuple(arguments, "y*ny*iL:offsets", &run.raw, &run.skip, &run.lengths, &channel, &first))
        return NULL;
    PyObject *octets = NULL, *lengths = NULL, *found = NULL;
    if (check_run(&run)) {
        octets = PyBytes_FromStringAndSize(NULL, run.raw.len + ADDED * (Py_ssize_t)run.count);
        lengths = PyBytes_FromStringAndSize(NULL, run.lengths.len);
    }
    if (octets != NULL && lengths != NULL) {
        Octets at = (Octets)run.raw.buf;
        uint8_t *to = (uint8_t *)PyBytes_AS_STRING(octets), *begin = to;
        size_t largest = 0;
        for (size_t message = 0; to != NULL && message < run.count; message++) {
            Octets content = at + skip_at(&run, at), end = at + lengths_of(&run)[message];
            begin = to;
            if (run.skip == OWN_METHODS) to = put(to, at, content);
            size_t own = (size_t)(to - begin);
            to = put_with_offset(to, content, end, channel, (uint64_t)first + message);
            if (to == NULL) break;
            uint32_t length = (uint32_t)(to - begin);
            memcpy(PyBytes_AS_STRING(lengths) + message * sizeof length, &length, sizeof length);
            size_t header = u32_at(begin + own + 3) + OVERHEAD;
            if (header > largest) largest = header;
            at = end;
        }
        if (to == NULL)
            found = Py_NewRef(Py_None);
        else if (_PyBytes_Resize(&octets, (char *)to - PyBytes_AS_STRING(octets)) == 0)
            found = Py_BuildValue("(OOn)", octets, lengths, (Py_ssize_t)largest);
    }
    Py_XDECREF(octets);
    Py_XDECREF(lengths);
    PyBuffer_Release(&run.raw);
    PyBuffer_Release(&run.lengths);
    return found;
}

static PyMethodDef FUNCTIONS[] = {
    {"offsets", offsets, METH_VARARGS, offsets_doc},
    {"integers", integers, METH_VARARGS, integers_doc},
    {"header_keys", header_keys, METH_VARARGS, header_keys_doc},
    {"asked", asked, METH_VARARGS, asked_doc},
    {"texts", texts, METH_VARARGS, texts_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_properties", "What the messages of a run ask for in their properties.", 0, FUNCTIONS,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__properties(void) { return PyModuleDef_Init(&MODULE); }
