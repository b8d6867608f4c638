/* Changes and questions of many ranges at once: what range_columns.py does, in C.
 *
 * Ranges are columns: arrays of unsigned numbers of 64 bits, ascending and disjoint. Each function here has a twin in
 * range_columns.py, which runs where this module was not built, and which decides wherever a function here returns
 * None. A function keeps nothing between two calls. */

#include "columns.h"
#include "slots.h"

PyDoc_STRVAR(merged_doc,
    "merged(ranges) -> list or None\n\n"
    "Disjoint ranges in ascending order, with adjacent and overlapping ones joined.");

static PyObject *merged(PyObject *module, PyObject *list) {
    Ranges ranges;
    int beyond = 0, canonical = 1, ascending = 1;
    if (!read_ranges(list, &ranges, &beyond)) return NULL;
    for (Py_ssize_t i = 1; i < ranges.count && !beyond && ascending; i++) {
        ascending = ranges.at[i].first >= ranges.at[i - 1].first;
        canonical = canonical && ranges.at[i].first > ranges.at[i - 1].last &&
                    ranges.at[i].first - ranges.at[i - 1].last > 1;
    }
    PyObject *found;
    if (beyond) {
        found = Py_NewRef(Py_None);
    } else if (ascending && canonical) {
        found = PyList_GetSlice(list, 0, ranges.count);
    } else {
        if (!ascending) qsort(ranges.at, (size_t)ranges.count, sizeof(Range), by_first);
        found = joined_list(ranges.at, ranges.count);
    }
    PyMem_Free(ranges.at);
    return found;
}

PyDoc_STRVAR(merged_pairs_doc,
    "merged_pairs(numbers) -> list\n\n"
    "As `merged`, for ranges whose first and last numbers take turns in a column.");

static PyObject *merged_pairs(PyObject *module, PyObject *numbers) {
    Columns column;
    if (!take(&column, &numbers, 1)) return NULL;
    Py_ssize_t count = column.of[0].count / 2;
    PyObject *found = NULL;
    Range *ranges = PyMem_Malloc((size_t)(count + 1) * sizeof(Range));
    if (column.of[0].count % 2) {
        PyErr_SetString(PyExc_ValueError, "a first number without a last one");
    } else if (ranges == NULL) {
        PyErr_NoMemory();
    } else {
        memcpy(ranges, column.of[0].at, (size_t)count * sizeof(Range));
        qsort(ranges, (size_t)count, sizeof(Range), by_first);
        found = joined_list(ranges, count);
    }
    PyMem_Free(ranges);
    release(&column);
    return found;
}

PyDoc_STRVAR(transposed_doc,
    "transposed(rows, width) -> list of arrays\n\n"
    "The first numbers of all rows, which are tuples, then the second ones, and so on.");

static PyObject *transposed(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Py_ssize_t width = count == 2 ? PyLong_AsSsize_t(given[1]) : -1;
    if (width < 1 || width > MAX_COLUMNS || !PyList_Check(given[0])) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a list of rows, and the width of each");
        return NULL;
    }
    Py_ssize_t rows = PyList_GET_SIZE(given[0]);
    uint64_t *numbers = PyMem_Malloc((size_t)(rows * width + 1) * sizeof(uint64_t));
    if (numbers == NULL) return PyErr_NoMemory();
    for (Py_ssize_t row = 0; row < rows && !PyErr_Occurred(); row++) {
        PyObject *of = PyList_GET_ITEM(given[0], row);
        if (!PyTuple_Check(of) || PyTuple_GET_SIZE(of) != width) {
            PyErr_SetString(PyExc_ValueError, "rows of different lengths");
            break;
        }
        for (Py_ssize_t column = 0; column < width && !PyErr_Occurred(); column++)
            numbers[column * rows + row] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(of, column));
    }
    PyObject *found = PyErr_Occurred() ? NULL : PyList_New(0);
    for (Py_ssize_t column = 0; column < width && found != NULL; column++)
        if (!append(found, array_of(numbers + column * rows, rows))) Py_CLEAR(found);
    PyMem_Free(numbers);
    return found;
}

/* -- changing ----------------------------------------------------------------------------------------------- */

PyDoc_STRVAR(joined_doc,
    "joined_columns(starts, ends, added) -> [starts, ends] or None\n\n"
    "The ranges joined with `added`, which are ascending.");

static PyObject *joined_columns(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Columns old;
    Ranges added;
    Made made;
    int beyond = 0;
    if (!take_both(given, count, &old, &added, &beyond)) return NULL;
    PyObject *found = NULL;
    const Column *starts = &old.of[0], *ends = &old.of[1];
    if (beyond) {
        found = Py_NewRef(Py_None);
    } else if (begin(&made, starts->count + added.count)) {
        for (Py_ssize_t i = 0, j = 0; i < starts->count || j < added.count;) {
            int mine = j == added.count || (i < starts->count && starts->at[i] <= added.at[j].first);
            uint64_t first = mine ? starts->at[i] : added.at[j].first, last = mine ? ends->at[i] : added.at[j].last;
            mine ? i++ : j++;
            uint64_t *top = made.count ? &made.lasts[made.count - 1] : NULL;
            if (top == NULL || (first > *top && first - *top > 1))
                add(&made, first, last, 0);
            else if (last > *top)
                *top = last;
        }
        found = end(&made, 2);
    }
    PyMem_Free(added.at);
    release(&old);
    return found;
}

PyDoc_STRVAR(cut_doc,
    "cut_out(starts, ends, removed, *columns) -> [starts, ends, *columns] or None\n\n"
    "The ranges without `removed`, which are ascending and disjoint, and the values that `columns` have of them.");

/* Add the columns' values of the ranges that are left, whose old indexes `made` has. */
static PyObject *end_cut(Made *made, const Columns *columns) {
    Py_ssize_t left = made->count;
    uint64_t *origins = PyMem_Malloc((size_t)(2 * left + 1) * sizeof(uint64_t));
    if (origins == NULL) {
        PyMem_Free(made->firsts);
        return PyErr_NoMemory();
    }
    memcpy(origins, made->values, (size_t)left * sizeof(uint64_t));
    PyObject *found = end(made, 2);
    for (int i = 0; i < columns->count && found != NULL; i++) {
        for (Py_ssize_t at = 0; at < left; at++) origins[left + at] = columns->of[i].at[origins[at]];
        if (!append(found, array_of(origins + left, left))) Py_CLEAR(found);
    }
    PyMem_Free(origins);
    return found;
}

static PyObject *cut_out(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Columns old, columns;
    Ranges removed;
    Made made;
    int beyond = 0;
    if (!take_both(given, count, &old, &removed, &beyond)) return NULL;
    PyObject *found = NULL;
    const Column *starts = &old.of[0], *ends = &old.of[1];
    if (beyond) {
        found = Py_NewRef(Py_None);
    } else if (take(&columns, given + 3, count - 3)) {
        if (columns.count && columns.of[0].count != starts->count) {
            PyErr_SetString(PyExc_ValueError, "columns of different lengths");
        } else if (begin(&made, starts->count + removed.count)) {
            for (Py_ssize_t i = 0, j = 0; i < starts->count; i++) {
                uint64_t start = starts->at[i];
                int rest = 1;
                while (j < removed.count && removed.at[j].last < start) j++;
                while (rest && j < removed.count && removed.at[j].first <= ends->at[i]) {
                    if (start < removed.at[j].first) add(&made, start, removed.at[j].first - 1, (uint64_t)i);
                    rest = removed.at[j].last < ends->at[i];
                    if (rest) start = removed.at[j++].last + 1;
                }
                if (rest) add(&made, start, ends->at[i], (uint64_t)i);
            }
            found = end_cut(&made, &columns);
        }
        release(&columns);
    }
    PyMem_Free(removed.at);
    release(&old);
    return found;
}

PyDoc_STRVAR(overlaid_doc,
    "overlaid(starts, ends, values, firsts, lasts, news) -> [starts, ends, values]\n\n"
    "The spans with the values `news` in place of any former ones in the spans from `firsts` to `lasts`.");

static PyObject *overlaid(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Columns old, new;
    Made made;
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "three columns, and three more");
        return NULL;
    }
    if (!take(&old, given, 3)) return NULL;
    if (!take(&new, given + 3, 3)) {
        release(&old);
        return NULL;
    }
    const uint64_t *starts = old.of[0].at, *ends = old.of[1].at, *values = old.of[2].at;
    Py_ssize_t size = old.of[0].count, i = 0;
    PyObject *found = NULL;
    if (begin(&made, size + 2 * new.of[0].count)) {
        uint64_t start = size ? starts[0] : 0;
        for (Py_ssize_t j = 0; j < new.of[0].count; j++) {
            uint64_t first = new.of[0].at[j], last = new.of[1].at[j];
            while (i < size && ends[i] < first) {
                add_span(&made, start, ends[i], values[i]);
                if (++i < size) start = starts[i];
            }
            if (i < size && start < first) add_span(&made, start, first - 1, values[i]);
            add_span(&made, first, last, new.of[2].at[j]);
            while (i < size && ends[i] <= last)
                if (++i < size) start = starts[i];
            if (i < size && start <= last) start = last + 1;
        }
        while (i < size) {
            add_span(&made, start, ends[i], values[i]);
            if (++i < size) start = starts[i];
        }
        found = end(&made, 3);
    }
    release(&new);
    release(&old);
    return found;
}

/* -- asking ------------------------------------------------------------------------------------------------- */

PyDoc_STRVAR(total_doc, "total(starts, ends) -> int or None\n\nHow many numbers the ranges have.");

static PyObject *total(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Columns columns;
    if (!take(&columns, given, count)) return NULL;
    uint64_t found = 0;
    int beyond = columns.count != 2;
    for (Py_ssize_t i = 0; !beyond && i < columns.of[0].count; i++) {
        uint64_t size = columns.of[1].at[i] - columns.of[0].at[i];
        beyond = size == UINT64_MAX || found > UINT64_MAX - size - 1;
        found += size + 1;
    }
    release(&columns);
    return beyond ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(found);
}

PyDoc_STRVAR(ascending_doc,
    "ascending(starts, ends) -> bool\n\n"
    "Whether no range ends before it starts, and each begins behind the end of the one before.");

static PyObject *ascending(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Columns columns;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "two columns");
        return NULL;
    }
    if (!take(&columns, given, count)) return NULL;
    const uint64_t *starts = columns.of[0].at, *ends = columns.of[1].at;
    int found = 1;
    for (Py_ssize_t i = 0; found && i < columns.of[0].count; i++)
        found = starts[i] <= ends[i] && (i == 0 || ends[i - 1] < starts[i]);
    release(&columns);
    return PyBool_FromLong(found);
}

PyDoc_STRVAR(paired_doc,
    "paired(starts, ends) -> list or None\n\nThe ranges. None where one ends before it starts.");

static PyObject *paired(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Columns columns;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "two columns");
        return NULL;
    }
    if (!take(&columns, given, count)) return NULL;
    PyObject *found = PyList_New(0);
    for (Py_ssize_t i = 0; found != NULL && found != Py_None && i < columns.of[0].count; i++) {
        uint64_t start = columns.of[0].at[i], last = columns.of[1].at[i];
        if (start > last) {
            Py_SETREF(found, Py_NewRef(Py_None));
        } else if (!append(found, pair_of(start, last))) {
            Py_CLEAR(found);
        }
    }
    release(&columns);
    return found;
}

PyDoc_STRVAR(parts_doc,
    "parts(at, first, last, starts, ends, *values) -> list or None\n\n"
    "The parts of the closed range that the ranges from index `at` on have, with their values where there are some.");

static PyObject *parts(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Columns columns;
    uint64_t first, last;
    int beyond = 0;
    Py_ssize_t at = count == 5 || count == 6 ? PyLong_AsSsize_t(given[0]) : -1;
    if (at < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "an index, two numbers, and columns");
        return NULL;
    }
    if (!number_of(given[1], &first, &beyond) || !number_of(given[2], &last, &beyond)) return NULL;
    if (beyond) return Py_NewRef(Py_None);
    if (!take(&columns, given + 3, count - 3)) return NULL;
    const uint64_t *starts = columns.of[0].at, *ends = columns.of[1].at;
    PyObject *found = PyList_New(0);
    for (; found != NULL && at < columns.of[0].count && starts[at] <= last; at++) {
        uint64_t from = starts[at] > first ? starts[at] : first, to = ends[at] < last ? ends[at] : last;
        PyObject *part = columns.count == 3 ? triple_of(from, to, columns.of[2].at[at]) : pair_of(from, to);
        if (!append(found, part)) Py_CLEAR(found);
    }
    release(&columns);
    return found;
}

PyDoc_STRVAR(within_doc,
    "within(starts, ends, ranges, *values) -> list or None\n\n"
    "As `parts`, for ranges that are ascending and disjoint.");

static PyObject *within(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Columns columns, values;
    Ranges ranges;
    int beyond = 0;
    if (!take_both(given, count, &columns, &ranges, &beyond)) return NULL;
    PyObject *found = NULL;
    Py_ssize_t size = columns.of[0].count;
    const uint64_t *starts = columns.of[0].at, *ends = columns.of[1].at;
    if (beyond) {
        found = Py_NewRef(Py_None);
    } else if (take(&values, given + 3, count - 3)) {
        if (values.count > 1 || (values.count && values.of[0].count != size))
            PyErr_SetString(PyExc_ValueError, "columns of different lengths");
        else
            found = PyList_New(0);
        for (Py_ssize_t i = 0, j = 0; found != NULL && i < size && j < ranges.count;) {
            uint64_t first = ranges.at[j].first, last = ranges.at[j].last;
            if (ends[i] < first) {
                i++;
            } else if (last < starts[i]) {
                j++;
            } else {
                uint64_t from = starts[i] > first ? starts[i] : first, to = ends[i] < last ? ends[i] : last;
                PyObject *part = values.count ? triple_of(from, to, values.of[0].at[i]) : pair_of(from, to);
                if (!append(found, part)) Py_CLEAR(found);
                ends[i] <= last ? i++ : j++;
            }
        }
        release(&values);
    }
    PyMem_Free(ranges.at);
    release(&columns);
    return found;
}

PyDoc_STRVAR(within_up_to_doc,
    "within_up_to(starts, ends, values, ranges, most) -> list or None\n\n"
    "The parts of ascending, disjoint ranges that the spans with values up to `most` have, joined where they touch.");

static PyObject *within_up_to(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Columns columns;
    Ranges ranges;
    Made made;
    uint64_t most;
    int beyond = 0;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "three columns, a list of ranges and a number");
        return NULL;
    }
    if (!number_of(given[4], &most, &beyond) || !read_ranges(given[3], &ranges, &beyond)) return NULL;
    PyObject *found = NULL;
    if (beyond) {
        found = Py_NewRef(Py_None);
    } else if (take(&columns, given, 3)) {
        Py_ssize_t size = columns.of[0].count;
        const uint64_t *starts = columns.of[0].at, *ends = columns.of[1].at, *values = columns.of[2].at;
        if (begin(&made, size + ranges.count)) {
            for (Py_ssize_t i = 0, j = 0; i < size && j < ranges.count;) {
                uint64_t first = ranges.at[j].first, last = ranges.at[j].last;
                uint64_t from = starts[i] > first ? starts[i] : first, to = ends[i] < last ? ends[i] : last;
                if (from <= to && values[i] <= most) add_span(&made, from, to, 0);
                ends[i] <= last ? i++ : j++;
            }
            found = PyList_New(0);
            for (Py_ssize_t i = 0; found != NULL && i < made.count; i++)
                if (!append(found, pair_of(made.firsts[i], made.lasts[i]))) Py_CLEAR(found);
            PyMem_Free(made.firsts);
        }
        release(&columns);
    }
    PyMem_Free(ranges.at);
    return found;
}

PyDoc_STRVAR(fronts_doc,
    "fronts(starts, ends, limit) -> list or None\n\nThe first `limit` numbers of the ranges, or all, as ranges.");

static PyObject *fronts(PyObject *module, PyObject *const *given, Py_ssize_t count) {
    Columns columns;
    uint64_t left;
    int beyond = 0;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "two columns and a number");
        return NULL;
    }
    if (!number_of(given[2], &left, &beyond)) return NULL;
    if (beyond) return Py_NewRef(Py_None);
    if (!take(&columns, given, 2)) return NULL;
    PyObject *found = PyList_New(0);
    for (Py_ssize_t at = 0; found != NULL && left && at < columns.of[0].count; at++) {
        uint64_t start = columns.of[0].at[at], last = columns.of[1].at[at];
        if (last - start >= left) last = start + left - 1;
        left -= last - start + 1;
        if (!append(found, pair_of(start, last))) Py_CLEAR(found);
    }
    release(&columns);
    return found;
}

static PyMethodDef FUNCTIONS[] = {
    {"merged", merged, METH_O, merged_doc},
    {"merged_pairs", merged_pairs, METH_O, merged_pairs_doc},
    {"by_slot", (PyCFunction)(void (*)(void))by_slot, METH_FASTCALL, by_slot_doc},
    {"within_up_to", (PyCFunction)(void (*)(void))within_up_to, METH_FASTCALL, within_up_to_doc},
    {"transposed", (PyCFunction)(void (*)(void))transposed, METH_FASTCALL, transposed_doc},
    {"joined_columns", (PyCFunction)(void (*)(void))joined_columns, METH_FASTCALL, joined_doc},
    {"cut_out", (PyCFunction)(void (*)(void))cut_out, METH_FASTCALL, cut_doc},
    {"overlaid", (PyCFunction)(void (*)(void))overlaid, METH_FASTCALL, overlaid_doc},
    {"total", (PyCFunction)(void (*)(void))total, METH_FASTCALL, total_doc},
    {"ascending", (PyCFunction)(void (*)(void))ascending, METH_FASTCALL, ascending_doc},
    {"paired", (PyCFunction)(void (*)(void))paired, METH_FASTCALL, paired_doc},
    {"parts", (PyCFunction)(void (*)(void))parts, METH_FASTCALL, parts_doc},
    {"within", (PyCFunction)(void (*)(void))within, METH_FASTCALL, within_doc},
    {"fronts", (PyCFunction)(void (*)(void))fronts, METH_FASTCALL, fronts_doc},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module) {
    PyObject *array = PyImport_ImportModule("array");
    array_type = array == NULL ? NULL : PyObject_GetAttrString(array, "array");
    Py_XDECREF(array);
    typecode = PyUnicode_InternFromString("Q");
    return array_type == NULL || typecode == NULL ? -1 : 0;
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_range_columns", "Changes many ranges at once.", 0, FUNCTIONS, SLOTS, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__range_columns(void) { return PyModuleDef_Init(&MODULE); }
