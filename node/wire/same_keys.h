/* Messages in a row with the same key, for the modules in C of both protocols. A key has the values for which an
 * expression asks: behind its first octet the number of each name, and the value as it is encoded. */

#ifndef QUORATE_SAME_KEYS_H
#define QUORATE_SAME_KEYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

enum { MAX_WANTED = 32, MAX_KEY = 256 };

typedef struct {
    Py_buffer names[MAX_WANTED];
    int count;
} Wanted;

static inline void release_wanted(Wanted *wanted) {
    while (wanted->count) PyBuffer_Release(&wanted->names[--wanted->count]);
}

/* Take the names out of a tuple of bytes objects, at most MAX_WANTED. Returns 0 with an exception. */
static inline int take_wanted(PyObject *names, Wanted *wanted) {
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(names); at++) {
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(names, at), &wanted->names[wanted->count], PyBUF_SIMPLE) < 0) return 0;
        wanted->count++;
    }
    return 1;
}

/* The number of a name; -1 for one that is not wanted. */
static inline int number_of(const Wanted *wanted, const uint8_t *name, size_t size) {
    for (int number = 0; number < wanted->count; number++)
        if ((size_t)wanted->names[number].len == size && !memcmp(wanted->names[number].buf, name, size)) return number;
    return -1;
}

/* Add the value between the positions to a key of `size` octets. Returns the octets of the key then; -1 where they
 * would be too many. */
static inline int add_value(uint8_t *key, int size, int number, const uint8_t *at, const uint8_t *end) {
    if (end - at > MAX_KEY - size - 1) return -1;
    key[size++] = (uint8_t)number;
    memcpy(key + size, at, (size_t)(end - at));
    return size + (int)(end - at);
}

typedef struct {
    PyObject *found; /* a list of (first, count, key); None where the twin has to look; NULL with an exception */
    uint8_t keys[2][MAX_KEY];
    int now, size; /* the key of the last message, and its octets */
    Py_ssize_t first, count;
} Stretches;

/* The function takes over the reference to `found`. */
static inline void begin_stretches(Stretches *all, PyObject *found) {
    all->found = found;
    all->now = all->size = 0;
    all->first = all->count = 0;
}

static inline int are_sought(const Stretches *all) { return all->found != NULL && all->found != Py_None; }

static inline void end_stretch(Stretches *all) {
    PyObject *one = Py_BuildValue("(nny#)", all->first, all->count - all->first, (const char *)all->keys[all->now],
                                  (Py_ssize_t)all->size);
    if (one == NULL || PyList_Append(all->found, one) < 0) Py_CLEAR(all->found);
    Py_XDECREF(one);
    all->first = all->count;
}

/* Where the key of the next message is written. */
static inline uint8_t *next_key(Stretches *all) { return all->keys[!all->now]; }

/* Take the next message, whose key has `size` octets; with -1 the twin has to look. */
static inline void add_message(Stretches *all, int size) {
    if (size < 0) {
        Py_SETREF(all->found, Py_NewRef(Py_None));
        return;
    }
    if (!all->count || size != all->size || memcmp(all->keys[0], all->keys[1], (size_t)size)) {
        if (all->count) end_stretch(all);
        all->now = !all->now;
        all->size = size;
    }
    all->count++;
}

/* The function hands its reference to `found` over. */
static inline PyObject *end_stretches(Stretches *all) {
    if (are_sought(all) && all->count) end_stretch(all);
    return all->found;
}

#endif
