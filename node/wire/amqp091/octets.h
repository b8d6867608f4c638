/* The layout of frames, field tables and property lists of AMQP 0-9-1, for the modules in C beside this file.
 *
 * Section numbers are those of AMQP 0-9-1. A function that returns a position returns NULL where the octets end
 * before, so that no octet is read that is not between the bounds. */

#ifndef QUORATE_OCTETS_H
#define QUORATE_OCTETS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

enum { FRAME_METHOD = 1, FRAME_HEADER = 2, FRAME_BODY = 3, FRAME_END = 0xCE }; /* §4.2.3 */

enum {
    FRAME_SIZE = 7,    /* type, channel, size of the payload (§4.2.3) */
    OVERHEAD = 8,      /* the same with the end octet */
    HEADER_FIXED = 12, /* class, weight, body size (§4.2.6.1) */
    CLASS_BASIC = 60,
};

typedef const uint8_t *Octets;

static inline uint32_t u16_at(Octets at) { return (uint32_t)at[0] << 8 | at[1]; }

static inline uint32_t u32_at(Octets at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline uint64_t u64_at(Octets at) { return (uint64_t)u32_at(at) << 32 | u32_at(at + 4); }

static inline int is_text(Octets at, size_t size, const char *text) {
    return size == strlen(text) && !memcmp(at, text, size);
}

/* -- values of fixed and of stated size (§4.2.5) ----------------------------------------------------------- */

/* The octets of a value behind its type, for types of a fixed size; -1 for other types. */
static inline int width_of(uint8_t type) {
    switch (type) {
    case 'V': return 0;
    case 't': case 'b': case 'B': return 1;
    case 's': case 'U': case 'u': return 2;
    case 'i': case 'I': case 'f': return 4;
    case 'D': return 5;
    case 'l': case 'L': case 'd': case 'T': return 8;
    default: return -1;
    }
}

/* The end of what begins with its length at `at`; NULL where that is beyond the limit. */
static inline Octets sized_end(Octets at, Octets limit) {
    if (limit - at < 4) return NULL;
    uint32_t size = u32_at(at);
    return size <= (size_t)(limit - at - 4) ? at + 4 + size : NULL;
}

/* -- property lists (§4.2.6.1) --------------------------------------------------------------------------- */

enum { SHORTSTR, TABLE, OCTET, TIMESTAMP };

enum { HEADERS = 2, DELIVERY_MODE = 3, PRIORITY = 4, REPLY_TO = 6, EXPIRATION = 7, USER_ID = 11, PROPERTIES = 14 };

static const uint8_t KINDS[PROPERTIES] = {
    SHORTSTR, SHORTSTR, TABLE, OCTET, OCTET, SHORTSTR, SHORTSTR, SHORTSTR, SHORTSTR, TIMESTAMP, SHORTSTR, SHORTSTR,
    SHORTSTR, SHORTSTR,
}; /* of the properties of class basic, the one of flag bit 15 first */

/* The position behind the value of a property that is no table. */
static inline Octets plain_end(Octets at, Octets end, int number) {
    switch (KINDS[number]) {
    case OCTET: return end - at >= 1 ? at + 1 : NULL;
    case TIMESTAMP: return end - at >= 8 ? at + 8 : NULL;
    default: return end - at >= 1 && at[0] <= end - at - 1 ? at + 1 + at[0] : NULL;
    }
}

/* The milliseconds in an expiration of digits alone; -1 for any other text, and above the limit of 2^32 - 1. */
static inline int64_t expiration_in(Octets text, size_t size) {
    int64_t number = 0;
    if (size < 1 || size > 10) return -1;
    for (size_t at = 0; at < size; at++) {
        if (text[at] < '0' || text[at] > '9') return -1;
        number = number * 10 + (text[at] - '0');
    }
    return number <= UINT32_MAX ? number : -1;
}

/* -- basic.publish (§1.8.3.7) ------------------------------------------------------------------------------ */

enum { EXCHANGE_AT = FRAME_SIZE + 6 }; /* behind class, method and a reserved short integer */

/* The position of the routing key, whose length stands there, in the frame of a basic.publish; NULL where the frame
 * is none, or ends before. */
static inline Octets routing_key_at(Octets frame, size_t size) {
    size_t at = EXCHANGE_AT;
    if (size <= at || (at += 1 + (size_t)frame[at]) >= size) return NULL;
    return at + 1 + frame[at] + 2 == size ? frame + at : NULL;
}

/* -- runs of messages with lengths ------------------------------------------------------------------------ */

enum { OWN_METHODS = -1 }; /* as in run.py: each message begins with a method frame of its own length */

typedef struct {
    Py_buffer raw, lengths;
    Py_ssize_t skip;
    size_t count;
} Run;

static inline const uint32_t *lengths_of(const Run *run) { return (const uint32_t *)run->lengths.buf; }

/* The octets of the method frame with which the message at `at` begins. */
static inline size_t skip_at(const Run *run, Octets at) {
    return run->skip >= 0 ? (size_t)run->skip : (size_t)u32_at(at + 3) + OVERHEAD;
}

/* Whether the lengths are those of messages end to end in the octets, each longer than its method frame. */
static inline int check_run(Run *run) {
    size_t total = 0, size = (size_t)run->raw.len;
    Octets at = (Octets)run->raw.buf;
    run->count = (size_t)run->lengths.len / sizeof(uint32_t);
    for (size_t message = 0; message < run->count && run->skip >= OWN_METHODS; message++) {
        uint32_t length = lengths_of(run)[message];
        if (length < FRAME_SIZE || length > size - total) break;
        if (length < skip_at(run, at + total) + FRAME_SIZE + HEADER_FIXED) break;
        total += length;
        if (total == size && message + 1 == run->count) return 1;
    }
    if (!run->count && !size) return 1;
    PyErr_SetString(PyExc_ValueError, "the lengths are not those of the run's messages");
    return 0;
}

#endif
