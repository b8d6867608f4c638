/* The work for each message of a run whose messages differ: the part of publish_path.py, codec.py and
 * contents.py that is made for every message, in C.
 *
 * Each function here has a twin in these modules, which runs where this module was not built, and which decides
 * wherever a function here is not sure: `scan` and `alike` stop before a message that they do not know to be valid,
 * and the twin accepts or refuses that message. tests/wire/test_native_contents.py gives both the same octets.
 *
 * The functions read and write nothing but the octets between the bounds that they have checked, keep no state,
 * and call no Python code.
 */

#include "octets.h"

enum { PERSISTENT = 2 }; /* the delivery mode of messages that survive a restart */

enum { IS_PERSISTENT = 1, IS_SPECIAL = 2, IS_REPLY_HERE = 4 }; /* the traits of a property list */

enum {
    MAX_NAMES = 32,   /* names in one table; above it the twin compares them by a set */
    MAX_VALUES = 128, /* values of a message's headers; above it they have a pace (properties.ORDINARY_VALUES) */
    MAX_NESTING = 8,  /* tables and arrays within each other */
    UNIFORM_FROM = 8, /* as in likeness.py */
};

static void put_u64(uint8_t *at, uint64_t number) {
    for (int octet = 7; octet >= 0; octet--, number >>= 8) at[octet] = (uint8_t)number;
}

static void put_u32(uint8_t *at, uint32_t number) {
    for (int octet = 3; octet >= 0; octet--, number >>= 8) at[octet] = (uint8_t)number;
}

/* -- header tables (§4.2.5.5) ---------------------------------------------------------------------------- */

typedef struct {
    int values;  /* counted so far, nested ones included */
    int special; /* a name of the outer table asks something of the broker (properties.SPECIAL_HEADERS) */
} Table;

static Octets table_end(Octets at, Octets limit, int depth, Table *table);

static Octets value_end(Octets at, Octets limit, int depth, Table *table);

static Octets array_end(Octets at, Octets limit, int depth, Table *table) {
    Octets end = depth ? sized_end(at, limit) : NULL;
    if (end == NULL) return NULL;
    for (at += 4; at < end;)
        if ((at = value_end(at, end, depth, table)) == NULL) return NULL;
    return end;
}

/* The position behind a value, whose type stands at `at`; NULL where the twin has to look. */
static Octets value_end(Octets at, Octets limit, int depth, Table *table) {
    if (at >= limit || ++table->values > MAX_VALUES) return NULL;
    uint8_t type = *at++;
    int width = width_of(type);
    if (width >= 0) return width <= limit - at ? at + width : NULL;
    switch (type) {
    case 'S': case 'x': return sized_end(at, limit);
    case 'F': return table_end(at, limit, depth - 1, table);
    case 'A': return array_end(at, limit, depth - 1, table);
    default: return NULL;
    }
}

static int asks_the_broker(Octets name, size_t size) {
    return is_text(name, size, "CC") || is_text(name, size, "BCC") || is_text(name, size, "x-delay");
}

/* The position behind a table, whose length stands at `at`; NULL where the twin has to look: at a malformed
 * table, at names that occur twice or are not ASCII, at wide and at deep tables. */
static Octets table_end(Octets at, Octets limit, int depth, Table *table) {
    Octets names[MAX_NAMES];
    int count = 0;
    Octets end = depth ? sized_end(at, limit) : NULL;
    if (end == NULL) return NULL;
    for (at += 4; at < end;) {
        Octets name = at;
        if (count == MAX_NAMES || name[0] >= end - name - 1) return NULL;
        for (int octet = 1; octet <= name[0]; octet++)
            if (name[octet] & 0x80) return NULL;
        for (int other = 0; other < count; other++)
            if (names[other][0] == name[0] && !memcmp(names[other], name, 1 + (size_t)name[0])) return NULL;
        names[count++] = name;
        if (depth == MAX_NESTING && asks_the_broker(name + 1, name[0])) table->special = 1;
        if ((at = value_end(name + 1 + name[0], end, depth, table)) == NULL) return NULL;
    }
    return end;
}

/* -- property lists (§4.2.6.1) --------------------------------------------------------------------------- */

/* The traits of a property list; -1 where the twin has to look. `user` is the only user-id that the list may
 * have; with a NULL buffer it may have any. */
static int traits_of(Octets at, Octets end, const Py_buffer *user) {
    Table table = {0, 0};
    int traits = 0;
    if (end - at < 2) return -1;
    uint32_t flags = u16_at(at);
    if (flags & 3) return -1; /* further flags, or one that class basic does not define */
    at += 2;
    for (int number = 0; number < PROPERTIES; number++) {
        if (!(flags & 0x8000u >> number)) continue;
        Octets next =
            KINDS[number] == TABLE ? table_end(at, end, MAX_NESTING, &table) : plain_end(at, end, number);
        if (next == NULL) return -1;
        switch (number) {
        case DELIVERY_MODE:
            if (*at == PERSISTENT) traits |= IS_PERSISTENT;
            break;
        case PRIORITY: traits |= IS_SPECIAL; break;
        case REPLY_TO:
            if (is_text(at + 1, at[0], "amq.rabbitmq.reply-to")) traits |= IS_REPLY_HERE;
            break;
        case EXPIRATION:
            if (expiration_in(at + 1, at[0]) < 0) return -1;
            traits |= IS_SPECIAL;
            break;
        case USER_ID:
            if (user->buf != NULL && (at[0] != user->len || memcmp(at + 1, user->buf, at[0]))) return -1;
            break;
        }
        at = next;
    }
    if (at != end) return -1;
    return table.special ? traits | IS_SPECIAL : traits;
}

/* -- scan ------------------------------------------------------------------------------------------------- */

typedef struct {
    Octets method; /* the frame with which the first message begins */
    size_t skip;   /* its octets */
    size_t fixed;  /* its octets before the routing key, where the others have keys of their own; otherwise 0 */
    uint32_t channel;
    int traits;
    const Py_buffer *user;
    size_t largest_payload;
    size_t largest_body; /* that one body frame may hold */
} Likeness;

typedef struct {
    Octets prefix_end; /* behind the header of the body frame, or of the message where it has no body */
    Octets end;
    size_t largest_frame;
} Place;

static int is_frame_head(Octets at, int kind, uint32_t channel) {
    return at[0] == kind && u16_at(at + 1) == channel;
}

/* The position behind a method frame that is like the first one; NULL where there is none. */
static Octets behind_method(Octets at, Octets end, const Likeness *like) {
    size_t left = (size_t)(end - at);
    if (!like->fixed) return left >= like->skip && !memcmp(at, like->method, like->skip) ? at + like->skip : NULL;
    if (left < EXCHANGE_AT || u32_at(at + 3) > left - OVERHEAD || memcmp(at, like->method, 3)) return NULL;
    size_t size = (size_t)u32_at(at + 3) + OVERHEAD;
    Octets key = routing_key_at(at, size);
    if (key == NULL || (size_t)(key - at) != like->fixed) return NULL;
    for (int octet = 1; octet <= key[0]; octet++)
        if (!key[octet] || key[octet] & 0x80) return NULL; /* the twin looks whether these are UTF-8 */
    if (memcmp(at + FRAME_SIZE, like->method + FRAME_SIZE, like->fixed - FRAME_SIZE)) return NULL;
    return memcmp(at + size - 2, like->method + like->skip - 2, 2) ? NULL : at + size;
}

/* Whether a complete message like the others stands at `at`, with at most one body frame. */
static int find_message(Octets at, Octets end, const Likeness *like, Place *place) {
    if ((at = behind_method(at, end, like)) == NULL) return 0;
    if (end - at < FRAME_SIZE + HEADER_FIXED || !is_frame_head(at, FRAME_HEADER, like->channel)) return 0;
    size_t size = u32_at(at + 3), body = u64_at(at + FRAME_SIZE + 4);
    if (size < HEADER_FIXED + 2 || size > like->largest_payload || size + OVERHEAD > (size_t)(end - at)) return 0;
    if (u16_at(at + FRAME_SIZE) != CLASS_BASIC || u16_at(at + FRAME_SIZE + 2)) return 0;
    Octets list = at + FRAME_SIZE + HEADER_FIXED, list_end = at + FRAME_SIZE + size;
    if (*list_end != FRAME_END || body > like->largest_body) return 0;
    place->prefix_end = place->end = list_end + 1;
    place->largest_frame = size + OVERHEAD;
    if (body) {
        Octets frame = list_end + 1;
        if (body + OVERHEAD > (size_t)(end - frame) || !is_frame_head(frame, FRAME_BODY, like->channel)) return 0;
        if (u32_at(frame + 3) != body || frame[FRAME_SIZE + body] != FRAME_END) return 0;
        place->prefix_end = frame + FRAME_SIZE;
        place->end = frame + OVERHEAD + body;
        if (body > size) place->largest_frame = body + OVERHEAD;
    }
    return traits_of(list, list_end, like->user) == like->traits;
}

/* Whether a uniform run begins: enough messages in a row had one length, and the next begins as the last. */
static int becomes_uniform(const uint32_t *lengths, size_t count, Octets last, const Place *place, Octets end) {
    if (count <= UNIFORM_FROM) return 0;
    for (size_t back = 2; back <= UNIFORM_FROM + 1; back++)
        if (lengths[count - back] != lengths[count - 1]) return 0;
    size_t prefix = place->prefix_end - last;
    return (size_t)(end - place->end) >= prefix && !memcmp(place->end, last, prefix);
}

/* Whether enough messages in a row had one method frame, which the next one has as well. */
static int becomes_one_key(const uint32_t *lengths, size_t count, Octets behind, Octets end) {
    if (count <= UNIFORM_FROM) return 0;
    Octets last = behind - lengths[count - 1], at = last;
    size_t size = (size_t)u32_at(last + 3) + OVERHEAD;
    if ((size_t)(end - behind) < size || memcmp(behind, last, size)) return 0;
    for (size_t back = 2; back <= UNIFORM_FROM; back++)
        if (memcmp(at -= lengths[count - back], last, size)) return 0;
    return 1;
}

PyDoc_STRVAR(scan_doc,
    "scan(data, at, skip, own, traits, user, largest_payload, largest_body) -> (lengths, end, largest frame)\n\n"
    "Measures the messages from `at` on that begin with the method frame of the first, of `skip` octets, have\n"
    "these traits (1 persistent, 2 special, 4 direct reply), and at most one body frame. With `own` their method\n"
    "frames may have routing keys of their own. Stops before a message that is none of them, or not surely valid,\n"
    "and where a run begins that is more uniform. `lengths` are unsigned integers of four octets. `user` is the\n"
    "only user-id that the messages may state; None admits any.");

static PyObject *scan(PyObject *module, PyObject *arguments) {
    Py_buffer data, user;
    Py_ssize_t start, skip, largest_payload, largest_body;
    int own, traits;
    if (!PyArg_ParseTuple(arguments, "y*nnpiz*nn:scan", &data, &start, &skip, &own, &traits, &user, &largest_payload,
                          &largest_body))
        return NULL;
    PyObject *result = NULL, *measured = NULL;
    uint32_t *lengths = NULL;
    size_t count = 0, room = 0, largest = 0;
    if (start < 0 || skip < FRAME_SIZE || start > data.len || skip > data.len - start) {
        PyErr_SetString(PyExc_ValueError, "no method frame at this position");
        goto done;
    }
    Octets begin = (Octets)data.buf, at = begin + start, end = begin + data.len;
    Octets key = own ? routing_key_at(at, (size_t)skip) : NULL;
    if (own && key == NULL) {
        PyErr_SetString(PyExc_ValueError, "no basic.publish at this position");
        goto done;
    }
    Likeness like = {
        at, (size_t)skip, own ? (size_t)(key - at) : 0, u16_at(at + 1), traits, &user, (size_t)largest_payload,
        (size_t)largest_body,
    };
    Place place;
    while (find_message(at, end, &like, &place) && (size_t)(place.end - at) <= UINT32_MAX) {
        if (count == room) {
            room = room ? 2 * room : 64;
            uint32_t *grown = PyMem_Realloc(lengths, room * sizeof *lengths);
            if (grown == NULL) {
                PyErr_NoMemory();
                goto done;
            }
            lengths = grown;
        }
        lengths[count++] = (uint32_t)(place.end - at);
        if (place.largest_frame > largest) largest = place.largest_frame;
        Octets last = at;
        at = place.end;
        if (own ? becomes_one_key(lengths, count, at, end) : becomes_uniform(lengths, count, last, &place, end)) break;
    }
    measured = PyBytes_FromStringAndSize((const char *)lengths, (Py_ssize_t)(count * sizeof *lengths));
    if (measured != NULL) result = Py_BuildValue("(Nnn)", measured, at - begin, (Py_ssize_t)largest);
done:
    PyMem_Free(lengths);
    PyBuffer_Release(&data);
    if (user.buf != NULL) PyBuffer_Release(&user);
    return result;
}

PyDoc_STRVAR(alike_doc,
    "alike(data, at, lengths, traits, user, largest_body) -> (contents, end, largest frame)\n\n"
    "Counts the contents from `at` on, without method frames, that have these lengths, these traits (1 persistent,\n"
    "2 special), the channel of the first, and at most one body frame, of any size up to that of the largest body.\n"
    "Stops before a content that is none of them, or not surely valid. `lengths` are unsigned integers of four\n"
    "octets. `user` is the only user-id that the messages may state; None admits any.");

static PyObject *alike(PyObject *module, PyObject *arguments) {
    Py_buffer data, lengths, user;
    Py_ssize_t start, largest_body;
    int traits;
    if (!PyArg_ParseTuple(arguments, "y*ny*iz*n:alike", &data, &start, &lengths, &traits, &user, &largest_body))
        return NULL;
    PyObject *result = NULL;
    if (start < 0 || start > data.len || data.len - start < FRAME_SIZE || largest_body < 0) {
        PyErr_SetString(PyExc_ValueError, "no frame at this position");
        goto done;
    }
    Octets begin = (Octets)data.buf, at = begin + start, end = begin + data.len;
    const uint32_t *stated = (const uint32_t *)lengths.buf;
    size_t count = (size_t)lengths.len / sizeof *stated, found = 0, largest = 0;
    Likeness like = {at, 0, 0, u16_at(at + 1), traits, &user, SIZE_MAX, (size_t)largest_body};
    Place place;
    while (like.channel && found < count && stated[found] <= (size_t)(end - at)) {
        if (!find_message(at, at + stated[found], &like, &place) || place.end != at + stated[found]) break;
        if (place.largest_frame > largest) largest = place.largest_frame;
        at = place.end;
        found++;
    }
    result = Py_BuildValue("(nnn)", (Py_ssize_t)found, at - begin, (Py_ssize_t)largest);
done:
    PyBuffer_Release(&data);
    PyBuffer_Release(&lengths);
    if (user.buf != NULL) PyBuffer_Release(&user);
    return result;
}

/* -- runs of messages of these lengths --------------------------------------------------------------------- */

PyDoc_STRVAR(body_sizes_doc,
    "body_sizes(raw, skip, lengths) -> bytes\n\n"
    "The size of each message's body, as its content header states it, as unsigned integers of eight octets.");

static PyObject *body_sizes(PyObject *module, PyObject *arguments) {
    Run run;
    if (!PyArg_ParseTuple(arguments, "y*ny*:body_sizes", &run.raw, &run.skip, &run.lengths)) return NULL;
    PyObject *sizes = NULL;
    if (check_run(&run))
        sizes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(run.count * sizeof(uint64_t)));
    if (sizes != NULL) {
        uint64_t *size = (uint64_t *)PyBytes_AS_STRING(sizes);
        Octets at = (Octets)run.raw.buf;
        for (size_t message = 0; message < run.count; message++) {
            size[message] = u64_at(at + skip_at(&run, at) + FRAME_SIZE + 4);
            at += lengths_of(&run)[message];
        }
    }
    PyBuffer_Release(&run.raw);
    PyBuffer_Release(&run.lengths);
    return sizes;
}

/* Give the frames from `at` to `end` this channel number. Returns 0 where they are not whole frames. */
static int move_frames(uint8_t *at, const uint8_t *end, uint32_t channel) {
    while (at < end) {
        if (end - at < OVERHEAD || u32_at(at + 3) > (size_t)(end - at - OVERHEAD)) return 0;
        at[1] = (uint8_t)(channel >> 8);
        at[2] = (uint8_t)channel;
        at += OVERHEAD + u32_at(at + 3);
    }
    return 1;
}

/* The octets of all routing keys of a run with OWN_METHODS, with their lengths; -1 where a method frame is none. */
static Py_ssize_t octets_of_keys(const Run *run) {
    Py_ssize_t octets = 0;
    Octets at = (Octets)run->raw.buf;
    for (size_t message = 0; message < run->count; message++) {
        Octets key = routing_key_at(at, skip_at(run, at));
        if (key == NULL) {
            PyErr_SetString(PyExc_ValueError, "a message has no method frame");
            return -1;
        }
        octets += 1 + key[0];
        at += lengths_of(run)[message];
    }
    return octets;
}

PyDoc_STRVAR(routing_keys_doc,
    "routing_keys(raw, lengths) -> list\n\n"
    "The octets of the routing key of each message, whose method frame states it.");

static PyObject *routing_keys(PyObject *module, PyObject *arguments) {
    Run run = {.skip = OWN_METHODS};
    if (!PyArg_ParseTuple(arguments, "y*y*:routing_keys", &run.raw, &run.lengths)) return NULL;
    PyObject *keys = NULL;
    if (check_run(&run) && octets_of_keys(&run) >= 0) keys = PyList_New((Py_ssize_t)run.count);
    Octets at = (Octets)run.raw.buf;
    for (size_t message = 0; keys != NULL && message < run.count; message++) {
        Octets key = routing_key_at(at, skip_at(&run, at));
        PyObject *one = PyBytes_FromStringAndSize((const char *)key + 1, key[0]);
        if (one == NULL)
            Py_CLEAR(keys);
        else
            PyList_SET_ITEM(keys, (Py_ssize_t)message, one);
        at += lengths_of(&run)[message];
    }
    PyBuffer_Release(&run.raw);
    PyBuffer_Release(&run.lengths);
    return keys;
}

/* Write the routing key of the message at `at` behind the rest of its basic.deliver, which begins at `frame`, and
 * the size of that frame into its header. Returns the position behind the frame. */
static uint8_t *end_with_key(const Run *run, Octets at, uint8_t *frame, uint8_t *to) {
    Octets key = routing_key_at(at, skip_at(run, at));
    size_t size = 1 + (size_t)key[0];
    memcpy(to, key, size);
    to += size;
    put_u32(frame + 3, (uint32_t)(to - frame - FRAME_SIZE));
    *to = FRAME_END;
    return to + 1;
}

PyDoc_STRVAR(deliveries_doc,
    "deliveries(raw, skip, lengths, before, after, first_tag, channel) -> bytes\n\n"
    "The contents of the messages, each behind a basic.deliver frame, whose octets stand in `before` and `after`\n"
    "its delivery tag. The tags count from `first_tag`. The frames of the contents get the number `channel`. Where\n"
    "the messages state their routing keys, `after` ends before the key.");

static PyObject *deliveries(PyObject *module, PyObject *arguments) {
    Run run;
    Py_buffer before, after;
    unsigned long long tag;
    unsigned int channel;
    if (!PyArg_ParseTuple(arguments, "y*ny*y*y*KI:deliveries", &run.raw, &run.skip, &run.lengths, &before, &after,
                          &tag, &channel))
        return NULL;
    PyObject *frames = NULL;
    Py_ssize_t keys = 0, own = run.skip < 0, skipped = 0;
    if (own && before.len < FRAME_SIZE)
        PyErr_SetString(PyExc_ValueError, "no frame begins with these octets");
    else if (check_run(&run) && (!own || (keys = octets_of_keys(&run)) >= 0)) {
        Octets at = (Octets)run.raw.buf;
        for (size_t message = 0; message < run.count; at += lengths_of(&run)[message++])
            skipped += (Py_ssize_t)skip_at(&run, at);
        Py_ssize_t each = before.len + 8 + after.len + own;
        frames = PyBytes_FromStringAndSize(NULL, run.raw.len - skipped + keys + (Py_ssize_t)run.count * each);
    }
    if (frames != NULL) {
        uint8_t *to = (uint8_t *)PyBytes_AS_STRING(frames);
        Octets at = (Octets)run.raw.buf;
        for (size_t message = 0; message < run.count; message++, tag++) {
            size_t skip = skip_at(&run, at), content = lengths_of(&run)[message] - skip;
            uint8_t *frame = to;
            memcpy(to, before.buf, (size_t)before.len);
            put_u64(to += before.len, tag);
            memcpy(to += 8, after.buf, (size_t)after.len);
            to += after.len;
            if (own) to = end_with_key(&run, at, frame, to);
            memcpy(to, at + skip, content);
            if (u16_at(to + 1) != channel && !move_frames(to, to + content, channel)) {
                PyErr_SetString(PyExc_ValueError, "a content is not made of whole frames");
                Py_CLEAR(frames);
                break;
            }
            to += content;
            at += lengths_of(&run)[message];
        }
    }
    PyBuffer_Release(&run.raw);
    PyBuffer_Release(&run.lengths);
    PyBuffer_Release(&before);
    PyBuffer_Release(&after);
    return frames;
}

static PyMethodDef FUNCTIONS[] = {
    {"scan", scan, METH_VARARGS, scan_doc},
    {"alike", alike, METH_VARARGS, alike_doc},
    {"body_sizes", body_sizes, METH_VARARGS, body_sizes_doc},
    {"routing_keys", routing_keys, METH_VARARGS, routing_keys_doc},
    {"deliveries", deliveries, METH_VARARGS, deliveries_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_contents", "The work for each message of a run whose messages differ.", 0, FUNCTIONS,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__contents(void) { return PyModuleDef_Init(&MODULE); }
