/* Spans by slots of their values, for the module in C beside this file. */

#ifndef QUORATE_SLOTS_H
#define QUORATE_SLOTS_H

#include "columns.h"

PyDoc_STRVAR(by_slot_doc,
    "by_slot(starts, ends, values, width) -> list of (slot, array)\n\n"
    "The first and last numbers, in turn, of the spans with values in each slot, by ascending slots.");

typedef struct {
    uint64_t slot;
    Range range;
} Slotted;

static int by_slot_and_first(const void *one, const void *other) {
    const Slotted *a = one, *b = other;
    if (a->slot != b->slot) return a->slot < b->slot ? -1 : 1;
    return by_first(&a->range, &b->range);
}

/* The slots of sorted spans, of which the numbers are written one behind the other in their place. */
static PyObject *slots_of(Slotted *spans, Py_ssize_t count) {
    uint64_t *numbers = PyMem_Malloc((size_t)(2 * count + 1) * sizeof(uint64_t));
    if (numbers == NULL) return PyErr_NoMemory();
    PyObject *found = PyList_New(0);
    for (Py_ssize_t at = 0, size; found != NULL && at < count; at += size) {
        for (size = 0; at + size < count && spans[at + size].slot == spans[at].slot; size++) {
            numbers[2 * size] = spans[at + size].range.first;
            numbers[2 * size + 1] = spans[at + size].range.last;
        }
        PyObject *slot = PyLong_FromUnsignedLongLong(spans[at].slot), *column = array_of(numbers, 2 * size);
        PyObject *pair = slot == NULL || column == NULL ? NULL : PyTuple_Pack(2, slot, column);
        Py_XDECREF(slot);
        Py_XDECREF(column);
        if (!append(found, pair)) Py_CLEAR(found);
    }
    PyMem_Free(numbers);
    return found;
}

static PyObject *by_slot(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Columns columns;
    uint64_t width = count == 4 ? PyLong_AsUnsignedLongLong(given[3]) : 0;
    if (width == 0 || PyErr_Occurred()) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "three columns and the width of a slot");
        return NULL;
    }
    if (!take(&columns, given, 3)) return NULL;
    Py_ssize_t size = columns.of[0].count;
    Slotted *spans = PyMem_Malloc((size_t)(size + 1) * sizeof(Slotted));
    PyObject *found = NULL;
    if (spans == NULL) {
        PyErr_NoMemory();
    } else {
        for (Py_ssize_t i = 0; i < size; i++) {
            uint64_t value = columns.of[2].at[i];
            spans[i].slot = value / width + (value % width != 0);
            spans[i].range = (Range){columns.of[0].at[i], columns.of[1].at[i]};
        }
        qsort(spans, (size_t)size, sizeof(Slotted), by_slot_and_first);
        found = slots_of(spans, size);
    }
    PyMem_Free(spans);
    release(&columns);
    return found;
}

#endif
