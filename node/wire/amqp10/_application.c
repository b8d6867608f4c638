/* The application-properties of the messages of a run that some expression asks for (AMQP 1.0, part 3, section
 * 3.2.5), in C: what amqp10/message_format.py would find by decoding all of them for each message.
 *
 * The function returns None for whatever is not as most clients write it; then the twin decodes the messages. Only
 * sections in the shortest encoding of their descriptor are read, texts of ASCII, and values that are no map, list or
 * array: of these it is sure that the twin finds no error. No octet is read that is not between the bounds which have
 * been checked.
 */

#include "../same_keys.h"

typedef const uint8_t *Octets;

enum { HEADER = 0x70, APPLICATION_PROPERTIES = 0x74, FOOTER = 0x78 }; /* descriptors of sections (section 3.2) */
enum { MAX_PAIRS = 16 };
enum { OF_APPLICATION = 'a' }; /* the first octet of keys: other ones than those of AMQP 0-9-1 */

static uint32_t u32_at(Octets at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

typedef struct {
    Octets at, end; /* what the size counts */
} Span;

/* The octets of a value of variable width or of a compound one, whose code stands at `at` (part 1, section 1.2).
 * Returns 0 where they are not all there. */
static int sized(Octets at, Octets limit, Span *span) {
    if (limit - at < 1) return 0;
    int wide = *at & 0x10;
    if (limit - at < (wide ? 5 : 2)) return 0;
    size_t size = wide ? u32_at(at + 1) : at[1];
    span->at = at + (wide ? 5 : 2);
    if (size > (size_t)(limit - span->at)) return 0;
    span->end = span->at + size;
    return 1;
}

static int is_ascii(const Span *span) {
    for (Octets at = span->at; at < span->end; at++)
        if (*at & 0x80) return 0;
    return 1;
}

/* The end of a value that is surely well-formed, and no map, list or array; NULL for any other one. */
static Octets plain_end(Octets at, Octets limit) {
    static const uint8_t WIDTHS[] = {0, 1, 2, 4, 8, 16};
    Span span;
    if (limit - at < 1) return NULL;
    switch (*at) {
    case 0x56:
        if (limit - at < 2 || at[1] > 1) return NULL;
        return at + 2;
    case 0x40: case 0x41: case 0x42: case 0x43: case 0x44: /* null, booleans, zeros */
    case 0x50: case 0x51: case 0x52: case 0x53: case 0x54: case 0x55:
    case 0x60: case 0x61: case 0x70: case 0x71: case 0x72:
    case 0x80: case 0x81: case 0x82: case 0x83: case 0x98: {
        int width = WIDTHS[(*at >> 4) - 4];
        return limit - at > width ? at + 1 + width : NULL;
    }
    case 0xa0: case 0xb0:
        return sized(at, limit, &span) ? span.end : NULL;
    case 0xa1: case 0xb1: case 0xa3: case 0xb3:
        return sized(at, limit, &span) && is_ascii(&span) ? span.end : NULL;
    default:
        return NULL;
    }
}

static int same(const Span *one, const void *octets, size_t size) {
    return (size_t)(one->end - one->at) == size && !memcmp(one->at, octets, size);
}

/* Write the wanted properties of a map into the key: the number of the name, and the encoded value. Returns the octets
 * of the key; -1 where the twin has to look. */
static int write_pairs(const Span *map, int wide, const Wanted *wanted, uint8_t *key) {
    Span names[MAX_PAIRS];
    int size = 1, count = 0;
    if (map->end - map->at < (wide ? 4 : 1)) return -1;
    uint32_t items = wide ? u32_at(map->at) : map->at[0];
    if (items % 2 || items / 2 > MAX_PAIRS) return -1;
    for (Octets at = map->at + (wide ? 4 : 1), next; (uint32_t)count < items / 2; at = next) {
        Span *name = &names[count];
        if (map->end - at < 1 || (*at != 0xa1 && *at != 0xb1) || !sized(at, map->end, name) || !is_ascii(name))
            return -1;
        for (int before = 0; before < count; before++)
            if (same(name, names[before].at, (size_t)(names[before].end - names[before].at))) return -1;
        count++;
        next = plain_end(name->end, map->end);
        if (next == NULL) return -1;
        if ((uint32_t)count == items / 2 && next != map->end) return -1;
        int number = number_of(wanted, name->at, (size_t)(name->end - name->at));
        if (number >= 0) size = add_value(key, size, number, name->end, next);
        if (size < 0) return -1;
    }
    return items || map->end - map->at == (wide ? 4 : 1) ? size : -1;
}

/* As `write_pairs`, for the message between the positions. */
static int write_key(Octets at, Octets end, const Wanted *wanted, uint8_t *key) {
    key[0] = OF_APPLICATION;
    while (at < end) {
        Span span;
        if (end - at < 4 || at[0] != 0 || at[1] != 0x53) return -1;
        int section = at[2], code = at[3];
        if (section < HEADER || section > FOOTER) return -1;
        if (section > APPLICATION_PROPERTIES) return 1;
        if (code == 0x45 && section != APPLICATION_PROPERTIES) {
            at += 4;
            continue;
        }
        if ((code & 0xe0) != 0xc0 || !sized(at + 3, end, &span)) return -1;
        if (section == APPLICATION_PROPERTIES)
            return code == 0xc1 || code == 0xd1 ? write_pairs(&span, code == 0xd1, wanted, key) : -1;
        at = span.end;
    }
    return 1;
}

PyDoc_STRVAR(property_keys_doc,
    "property_keys(raw, skip, lengths, names) -> list or None\n\n"
    "(first, count, key) of messages in a row with the same application-properties of these names, at most 32.\n"
    "Messages with the same key have the same values of them. None where the twin has to look.");

static PyObject *property_keys(PyObject *module, PyObject *arguments) {
    Py_buffer raw, lengths;
    Py_ssize_t skip;
    PyObject *names, *found = NULL;
    Wanted wanted = {.count = 0};
    if (!PyArg_ParseTuple(arguments, "y*ny*O!:property_keys", &raw, &skip, &lengths, &PyTuple_Type, &names)) return NULL;
    if (skip < 0)
        PyErr_SetString(PyExc_ValueError, "the octets in front of a message are not counted");
    else if (PyTuple_GET_SIZE(names) > MAX_WANTED)
        found = Py_NewRef(Py_None);
    else if (take_wanted(names, &wanted))
        found = PyList_New(0);
    Stretches all;
    begin_stretches(&all, found);
    Py_ssize_t count = lengths.len / (Py_ssize_t)sizeof(uint32_t), left = raw.len;
    Octets at = raw.buf;
    for (Py_ssize_t message = 0; are_sought(&all) && message < count; message++) {
        uint32_t length = ((const uint32_t *)lengths.buf)[message];
        if (length > left || length < skip) {
            PyErr_SetString(PyExc_ValueError, "the lengths are not those of the run's messages");
            Py_CLEAR(all.found);
            break;
        }
        add_message(&all, write_key(at + skip, at + length, &wanted, next_key(&all)));
        at += length;
        left -= length;
    }
    found = end_stretches(&all);
    release_wanted(&wanted);
    PyBuffer_Release(&raw);
    PyBuffer_Release(&lengths);
    return found;
}

/* Read the integer behind the number of its name in a key of `write_key`. Returns 0 for a key that does not have one
 * value, an integer of 64 bits with a sign. */
static int integer_of_key(Octets key, int size, int64_t *integer) {
    if (size < 3) return 0;
    Octets at = key + 3;
    int octets = size - 3;
    uint64_t read = 0;
    for (int place = 0; octets <= 8 && place < octets; place++) read = read << 8 | at[place];
    switch (key[2]) {
    case 0x43: case 0x44: /* zeros */
        *integer = 0;
        return octets == 0;
    case 0x50: case 0x52: case 0x53: /* unsigned, in one octet */
        *integer = (int64_t)read;
        return octets == 1;
    case 0x51: case 0x54: case 0x55:
        *integer = (int8_t)read;
        return octets == 1;
    case 0x60:
        *integer = (int64_t)read;
        return octets == 2;
    case 0x61:
        *integer = (int16_t)read;
        return octets == 2;
    case 0x70:
        *integer = (int64_t)read;
        return octets == 4;
    case 0x71:
        *integer = (int32_t)read;
        return octets == 4;
    case 0x80:
        *integer = (int64_t)read;
        return octets == 8 && *integer >= 0;
    case 0x81:
        *integer = (int64_t)read;
        return octets == 8;
    default:
        return 0;
    }
}

PyDoc_STRVAR(integers_doc,
    "integers(raw, skip, lengths, names) -> list or None\n\n"
    "(first, count, integer) of messages in a row with the same integer in the application-property that is the\n"
    "only one of `names`. None where the twin has to look: some message does not have it, as an integer.");

static PyObject *integers(PyObject *module, PyObject *arguments) {
    Py_buffer raw, lengths;
    Py_ssize_t skip, first = 0;
    PyObject *names, *found = NULL;
    Wanted wanted = {.count = 0};
    if (!PyArg_ParseTuple(arguments, "y*ny*O!:integers", &raw, &skip, &lengths, &PyTuple_Type, &names)) return NULL;
    if (skip < 0)
        PyErr_SetString(PyExc_ValueError, "the octets in front of a message are not counted");
    else if (PyTuple_GET_SIZE(names) != 1)
        PyErr_SetString(PyExc_ValueError, "one name");
    else if (take_wanted(names, &wanted))
        found = PyList_New(0);
    Py_ssize_t count = lengths.len / (Py_ssize_t)sizeof(uint32_t), left = raw.len;
    Octets at = raw.buf;
    uint8_t key[MAX_KEY];
    int64_t last = 0, next = 0;
    for (Py_ssize_t message = 0; found != NULL && message <= count; message++) {
        uint32_t length = message < count ? ((const uint32_t *)lengths.buf)[message] : 0;
        if (message < count && (length > left || length < skip)) {
            PyErr_SetString(PyExc_ValueError, "the lengths are not those of the run's messages");
            Py_CLEAR(found);
            break;
        }
        if (message < count && !integer_of_key(key, write_key(at + skip, at + length, &wanted, key), &next)) {
            Py_SETREF(found, Py_NewRef(Py_None));
            break;
        }
        if (message && (message == count || next != last)) {
            PyObject *one = Py_BuildValue("(nnL)", first, message - first, (long long)last);
            if (one == NULL || PyList_Append(found, one) < 0) Py_CLEAR(found);
            Py_XDECREF(one);
            first = message;
        }
        last = next;
        at += length;
        left -= length;
    }
    release_wanted(&wanted);
    PyBuffer_Release(&raw);
    PyBuffer_Release(&lengths);
    return found;
}

static PyMethodDef FUNCTIONS[] = {
    {"integers", integers, METH_VARARGS, integers_doc},
    {"property_keys", property_keys, METH_VARARGS, property_keys_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_application", "The application-properties of the messages of a run.", 0, FUNCTIONS,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__application(void) { return PyModuleDef_Init(&MODULE); }
