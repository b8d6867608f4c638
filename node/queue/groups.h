/* The groups of a queue's messages, for the module in C beside this file.
 *
 * A table has a slot for each group that is busy or has parked messages, and none for a message. Numbers of messages,
 * groups and holders are unsigned numbers of 64 bits. The holder 0 is none: its groups are free. A function that may
 * need memory returns 0 with an exception where there is none; such a call is left half done. */

#ifndef QUORATE_GROUPS_H
#define QUORATE_GROUPS_H

#include "group_parts.h"

typedef struct {
    uint64_t first, last, holder;
} Held; /* messages of a group that a consumer beside the holder has */

typedef struct {
    uint64_t key, unsettled, resting, offered_first;
    Py_ssize_t holder, offered_holder; /* slots of holders */
    int lives, offered;
    Parked parked;
    struct {
        Held *at;
        Py_ssize_t count, room;
    } others;
} Group;

typedef struct {
    uint64_t id, bound, supply;
    Heap heads;
} Holder;

typedef struct {
    uint64_t first, last, key;
} Span;

typedef struct {
    PyObject_HEAD
    struct {
        Group *at;
        Py_ssize_t count, room;
    } groups;
    struct {
        Holder *at;
        Py_ssize_t count, room;
    } holders; /* the first one is none */
    struct {
        Py_ssize_t *at;
        Py_ssize_t count, room;
    } free_groups, free_holders, open; /* slots; `open` are the groups of the last choice, which are in no heap */
    struct {
        Span *at;
        Py_ssize_t count, room;
    } chosen;
    uint64_t free_offers; /* how many groups are offered as free ones */
    Heap more; /* where chosen groups go on, while the table chooses */
    Index by_key, by_id;
} Table;

enum { NO_HOLDER = 0, NO_GROUP = 0 };

static int waits(const Group *group) { return group->resting || group->others.count; }

/* -- slots ------------------------------------------------------------------------------------------------ */

/* The slot of a group, which begins where there is none; -1 with an exception. */
static Py_ssize_t group_slot(Table *table, uint64_t key) {
    Py_ssize_t slot = slot_of(&table->by_key, key);
    if (slot >= 0) return slot;
    if (table->free_groups.count) {
        slot = table->free_groups.at[table->free_groups.count - 1];
    } else {
        if (!RESERVE(table->groups, table->groups.count + 1)) return -1;
        if (!RESERVE(table->free_groups, table->groups.count + 1)) return -1;
        slot = table->groups.count;
        memset(&table->groups.at[slot], 0, sizeof(Group));
    }
    if (!add_number(&table->by_key, key, slot)) return -1;
    if (slot == table->groups.count)
        table->groups.count++;
    else
        table->free_groups.count--;
    Group *group = &table->groups.at[slot];
    group->key = key;
    group->lives = 1;
    return slot;
}

/* A heap has the group no more, or under what is out of date. */
static void withdraw(Table *table, Group *group) {
    table->free_offers -= group->offered && group->offered_holder == NO_HOLDER;
    group->offered = 0;
}

static void forget(Table *table, Py_ssize_t slot) {
    Group *group = &table->groups.at[slot];
    withdraw(table, group);
    drop_number(&table->by_key, group->key);
    PyMem_Free(group->others.at);
    Parked parked = group->parked;
    if (parked.room > FIRST_ROOM) {
        PyMem_Free(parked.at);
        parked = (Parked){0};
    }
    *group = (Group){.parked = parked};
    table->free_groups.at[table->free_groups.count++] = slot;
}

/* The slot of a consumer that holds groups, or begins to; -1 with an exception. */
static Py_ssize_t holder_slot(Table *table, uint64_t id) {
    Py_ssize_t slot = slot_of(&table->by_id, id);
    if (slot >= 0) return slot;
    if (table->free_holders.count) {
        slot = table->free_holders.at[table->free_holders.count - 1];
    } else {
        if (!RESERVE(table->holders, table->holders.count + 1)) return -1;
        if (!RESERVE(table->free_holders, table->holders.count + 1)) return -1;
        slot = table->holders.count;
    }
    if (!add_number(&table->by_id, id, slot)) return -1;
    if (slot == table->holders.count)
        table->holders.count++;
    else
        table->free_holders.count--;
    table->holders.at[slot] = (Holder){.id = id};
    return slot;
}

/* A group less is bound to the holder, which is forgotten with its last one. */
static void unbind(Table *table, Py_ssize_t slot) {
    Holder *holder = &table->holders.at[slot];
    if (slot == NO_HOLDER || --holder->bound) return;
    drop_number(&table->by_id, holder->id);
    PyMem_Free(holder->heads.at);
    *holder = (Holder){0};
    table->free_holders.at[table->free_holders.count++] = slot;
}

/* -- groups ----------------------------------------------------------------------------------------------- */

/* Put the group's first parked message where `valid_head` finds it for a consumer that may have it. */
static int offer(Table *table, Py_ssize_t slot) {
    Group *group = &table->groups.at[slot];
    if (!any_parked(&group->parked) || waits(group)) return 1;
    uint64_t first = group->parked.at[group->parked.head].first;
    if (group->offered && group->offered_first == first && group->offered_holder == group->holder) return 1;
    withdraw(table, group);
    table->free_offers += group->holder == NO_HOLDER;
    group->offered = 1;
    group->offered_first = first;
    group->offered_holder = group->holder;
    return push_head(&table->holders.at[group->holder].heads, (Head){first, slot, 0});
}

/* Forget a group without messages; offer the parked messages of any other group. */
static int settle_down(Table *table, Py_ssize_t slot) {
    Group *group = &table->groups.at[slot];
    if (group->unsettled || group->resting || any_parked(&group->parked)) return offer(table, slot);
    forget(table, slot);
    return 1;
}

/* The consumer holds the group from now on; the id 0 frees the group. */
static int bind(Table *table, Py_ssize_t slot, uint64_t id) {
    Py_ssize_t to = id ? holder_slot(table, id) : NO_HOLDER;
    if (to < 0) return 0;
    Group *group = &table->groups.at[slot];
    Py_ssize_t from = group->holder, left = 0;
    table->holders.at[from].supply -= group->parked.count;
    table->holders.at[to].supply += group->parked.count;
    table->holders.at[to].bound++;
    group->holder = to;
    withdraw(table, group);
    for (Py_ssize_t i = 0; i < group->others.count; i++)
        if (group->others.at[i].holder != id) group->others.at[left++] = group->others.at[i];
    group->others.count = left;
    unbind(table, from);
    return 1;
}

/* Messages that consumers beside the holder have are unsettled no more. The order of the others is of no matter. */
static int drop_others(Group *group, uint64_t first, uint64_t last) {
    for (Py_ssize_t i = group->others.count; i-- > 0;) {
        Held held = group->others.at[i];
        if (held.last < first || held.first > last) continue;
        if (!RESERVE(group->others, group->others.count + 1)) return 0;
        Held *at = group->others.at;
        at[i] = at[--group->others.count];
        if (held.first < first) at[group->others.count++] = (Held){held.first, first - 1, held.holder};
        if (held.last > last) at[group->others.count++] = (Held){last + 1, held.last, held.holder};
    }
    return 1;
}

static int lease_span(Table *table, uint64_t id, Span span) {
    Py_ssize_t slot = span.key == NO_GROUP ? slot_of(&table->by_key, NO_GROUP) : group_slot(table, span.key);
    if (span.key == NO_GROUP) return slot < 0 || settle_down(table, slot);
    if (slot < 0) return 0;
    Group *group = &table->groups.at[slot];
    if (!group->unsettled) {
        if (!bind(table, slot, id)) return 0;
    } else if (table->holders.at[group->holder].id != id) {
        if (!drop_others(group, span.first, span.last) || !RESERVE(group->others, group->others.count + 1)) return 0;
        group->others.at[group->others.count++] = (Held){span.first, span.last, id};
    }
    group->unsettled += span.last - span.first + 1;
    return offer(table, slot);
}

/* The consumer that has unsettled messages of the group: the holder while it has some, then the one with the oldest
 * message; 0 where all are settled. */
static uint64_t next_holder(const Table *table, const Group *group) {
    uint64_t of_others = 0, found = 0, oldest = UINT64_MAX;
    for (Py_ssize_t i = 0; i < group->others.count; i++) {
        const Held *held = &group->others.at[i];
        of_others += held->last - held->first + 1;
        if (held->first < oldest) oldest = held->first, found = held->holder;
    }
    return group->unsettled > of_others ? table->holders.at[group->holder].id : found;
}

static int settle_span(Table *table, Span span) {
    Py_ssize_t slot = slot_of(&table->by_key, span.key);
    if (slot < 0) return 1;
    Group *group = &table->groups.at[slot];
    int contended = group->others.count > 0;
    uint64_t settled = span.last - span.first + 1;
    group->unsettled -= settled < group->unsettled ? settled : group->unsettled;
    if (contended && !drop_others(group, span.first, span.last)) return 0;
    uint64_t next = next_holder(table, group);
    if (next != table->holders.at[group->holder].id) {
        if (!bind(table, slot, next)) return 0;
    } else if (contended == (group->others.count > 0)) {
        return 1;
    }
    return settle_down(table, slot);
}

static int park_span(Table *table, Span span) {
    Py_ssize_t slot = group_slot(table, span.key);
    if (slot < 0) return 0;
    Group *group = &table->groups.at[slot];
    if (!add_parked(&group->parked, span.first, span.last)) return 0;
    table->holders.at[group->holder].supply += span.last - span.first + 1;
    return offer(table, slot);
}

/* Parked messages are not ready any more. */
static int unpark_span(Table *table, Span span) {
    Py_ssize_t slot = slot_of(&table->by_key, span.key);
    if (slot < 0) return 1;
    Group *group = &table->groups.at[slot];
    int64_t removed = remove_parked(&group->parked, span.first, span.last);
    if (removed < 0) return 0;
    table->holders.at[group->holder].supply -= (uint64_t)removed;
    return 1;
}

static int remove_span(Table *table, Span span) {
    if (!unpark_span(table, span)) return 0;
    Py_ssize_t slot = slot_of(&table->by_key, span.key);
    return slot < 0 || settle_down(table, slot);
}

static int rest_span(Table *table, Span span) {
    Py_ssize_t slot = span.key == NO_GROUP ? 0 : group_slot(table, span.key);
    if (slot < 0) return 0;
    if (span.key != NO_GROUP) table->groups.at[slot].resting += span.last - span.first + 1;
    return 1;
}

static int rested_span(Table *table, Span span) {
    Py_ssize_t slot = slot_of(&table->by_key, span.key);
    if (slot < 0) return 1;
    uint64_t rested = span.last - span.first + 1, *resting = &table->groups.at[slot].resting;
    *resting -= rested < *resting ? rested : *resting;
    return settle_down(table, slot);
}

/* -- choosing --------------------------------------------------------------------------------------------- */

/* The first parked message of the groups that the holder has; NULL without one. */
static const Head *valid_head(Table *table, Py_ssize_t holder) {
    Heap *heads = &table->holders.at[holder].heads;
    while (heads->count) {
        const Head *head = heads->at;
        Group *group = &table->groups.at[head->slot];
        if (group->lives && group->offered && group->offered_first == head->first && group->offered_holder == holder) {
            const Parked *parked = &group->parked;
            if (any_parked(parked) && parked->at[parked->head].first == head->first && !waits(group)) return head;
            withdraw(table, group);
        }
        pop_head(heads);
    }
    return NULL;
}

static int reopen(Table *table) {
    for (Py_ssize_t i = 0; i < table->open.count; i++)
        if (table->groups.at[table->open.at[i]].lives && !offer(table, table->open.at[i])) return 0;
    table->open.count = 0;
    return 1;
}

/* The oldest head that the consumer may have, which leaves its heap; a head of the slot -1 without one. */
static int next_head(Table *table, Py_ssize_t holder, uint64_t *free, Head *found) {
    Heap *from = table->more.count ? &table->more : NULL;
    const Head *anyones = *free ? valid_head(table, NO_HOLDER) : NULL;
    const Head *mine = holder > NO_HOLDER ? valid_head(table, holder) : NULL;
    if (anyones != NULL && (from == NULL || anyones->first < from->at->first))
        from = &table->holders.at[NO_HOLDER].heads;
    if (mine != NULL && (from == NULL || mine->first < from->at->first)) from = &table->holders.at[holder].heads;
    found->slot = -1;
    if (from == NULL) return 1;
    *found = *from->at;
    pop_head(from);
    if (from == &table->more) return 1;
    if (!RESERVE(table->open, table->open.count + 1)) return 0;
    table->open.at[table->open.count++] = found->slot;
    Group *group = &table->groups.at[found->slot];
    withdraw(table, group);
    found->index = group->parked.head;
    *free -= from == &table->holders.at[NO_HOLDER].heads;
    return 1;
}

static int choose(Table *table, uint64_t id, uint64_t limit, uint64_t rivals) {
    table->chosen.count = table->more.count = 0;
    if (!reopen(table)) return 0;
    Py_ssize_t holder = id ? slot_of(&table->by_id, id) : NO_HOLDER;
    uint64_t free = rivals ? (table->free_offers + rivals) / (rivals + 1) : limit;
    Head head;
    while (limit) {
        if (!next_head(table, holder, &free, &head)) return 0;
        if (head.slot < 0) return 1;
        const Group *group = &table->groups.at[head.slot];
        Range part = group->parked.at[head.index];
        if (part.last - part.first >= limit) part.last = part.first + limit - 1;
        limit -= part.last - part.first + 1;
        if (!RESERVE(table->chosen, table->chosen.count + 1)) return 0;
        table->chosen.at[table->chosen.count++] = (Span){part.first, part.last, group->key};
        if (++head.index < group->parked.behind) {
            head.first = group->parked.at[head.index].first;
            if (!push_head(&table->more, head)) return 0;
        }
    }
    return 1;
}

#endif
