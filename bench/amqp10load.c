/* amqp10load: a load generator for AMQP 1.0 brokers, one thread, epoll.
 *
 *   cc -O2 -o amqp10load amqp10load.c
 *   ./amqp10load --publish-to 127.0.0.1:5672 --consume-from 127.0.0.1:5673 \
 *                --queue bench --address /queues/%s --size 256 --seconds 10
 *
 * Takes the options of amqpload, as far as they have a meaning here, and prints the same JSON object. The
 * queues have to be there: the protocol declares none. --window bounds a sender's unsettled deliveries,
 * --prefetch is a receiver's link credit, renewed when half of it is used up, --ack-every the range of its
 * dispositions. --presettled has senders send settled deliveries, --autoack has receivers ask for such.
 * With --publishers 0 the time begins with the first delivery; --elsewhere tells how many senders (or
 * publishers of amqpload) another process has, so that the order of their messages is checked.
 * --transaction N has senders send in transactions of N messages, one after the other; the next one is
 * declared while the last one is discharged.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { OPEN = 0x10, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE, MECHANISMS = 0x40, INIT, OUTCOME = 0x44 };
enum { SOURCE = 0x28, TARGET, ERROR = 0x1d, ACCEPTED = 0x24, COORDINATOR = 0x30, DECLARE, DISCHARGE, DECLARED, TRANSACTIONAL, HEADER = 0x70, PROPERTIES = 0x73, APPLICATION, DATA, VALUE = 0x77, NUL = 0x40, YES, NO };
#define MAX_CONNS 16384
#define AT_ONCE 64
#define SAMPLES (1 << 22)
#define FRAME_MAX 131072
#define WINDOW (1u << 20) /* transfer frames that the broker may send before the next flow */
#define TRANSFER_ROOM 64  /* more than the octets of a frame around its part of a message */
#define ALIVE 10000000000ull

typedef struct { uint8_t *p; size_t len, cap; } buf;
typedef struct conn {
  int fd, consumer, id;
  uint32_t frame_max, credit_to, frames, frames_to; /* sender: delivery-count and transfer id that the broker takes no more */
  buf in, out, message; size_t out_off, in_off, body_at;
  uint64_t next_tag, confirmed_to;      /* sender: deliveries sent and settled */
  uint64_t *sent_at; uint8_t *state;    /* sender: ring of send times, settled flags */
  uint32_t ids, handle, controls, controls_to, discharging; uint8_t id_n, transaction[32]; /* sender: the next delivery, its broker's handle; control link, transaction */
  uint32_t first_unacked, last_id, received, renewed_at, came; uint64_t unacked_n; int body_first; /* receiver */
} conn;

static struct {
  char pub_to[4096], con_from[4096], queue[128], address[128], type[32], user[128], pass[128], vhost[128], watch[256];
  int publishers, consumers, queues, size, window, prefetch, ack_every, durable, persistent, autoack, presettled, purge, drain, spin, declare, mixed, sites, elsewhere, transaction;
  double seconds, rate; uint64_t count;
} o = {.pub_to = "127.0.0.1:5672", .con_from = "", .queue = "bench", .address = "/queues/%s", .user = "guest", .pass = "guest",
       .vhost = "/", .publishers = 1, .consumers = 1, .queues = 1, .size = 256, .window = 2000, .prefetch = 1000,
       .ack_every = 50, .persistent = 1, .drain = 20, .spin = 1, .seconds = 10};

static conn conns[MAX_CONNS]; static int nconns;
static uint32_t *conf_lat, *e2e_lat; static uint64_t n_conf_lat, n_e2e_lat;
static uint64_t published, confirmed, nacked, delivered, duplicates, misordered, octets, closed_by_broker;
static uint8_t **seen; static uint64_t *seen_cap, *last_seq; static int npub;

static uint64_t now_ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static void die(const char *m) { fprintf(stderr, "amqp10load: %s (%s)\n", m, errno ? strerror(errno) : "-"); exit(1); }
static void need(buf *b, size_t n) { if (b->len + n > b->cap) { b->cap = (b->len + n) * 2; b->p = realloc(b->p, b->cap); if (!b->p) die("memory"); } }
static void put(buf *b, const void *d, size_t n) { need(b, n); memcpy(b->p + b->len, d, n); b->len += n; }
static void u8(buf *b, uint8_t v) { put(b, &v, 1); }
static void u16(buf *b, uint16_t v) { v = htons(v); put(b, &v, 2); }
static void u32(buf *b, uint32_t v) { v = htonl(v); put(b, &v, 4); }
/* Values of the types that the performatives have, and described lists and maps: `list` gives the place of the size. */
static void nul(buf *b) { u8(b, NUL); }
static void flag(buf *b, int v) { u8(b, v ? YES : NO); }
static void number(buf *b, uint32_t v) { u8(b, 0x70); u32(b, v); }
static void text(buf *b, uint8_t code, const char *s, size_t n) { u8(b, code); u8(b, n); put(b, s, n); }
static void string(buf *b, const char *s) { text(b, 0xa1, s, strlen(s)); }
static size_t list(buf *b, uint8_t descriptor, uint8_t code, uint8_t n) { u8(b, 0); u8(b, 0x53); u8(b, descriptor); u8(b, code); u8(b, 0); u8(b, n); return b->len - 2; }
static void listed(buf *b, size_t at) { b->p[at] = b->len - at - 1; }
static size_t begin(buf *b, uint8_t type, uint8_t performative, uint8_t n, size_t *fields) { size_t at = b->len; u32(b, 0); u8(b, 2); u8(b, type); u16(b, 0); *fields = list(b, performative, 0xc0, n); return at; }
static void end(buf *b, size_t at) { uint32_t n = htonl(b->len - at); memcpy(b->p + at, &n, 4); }
static uint32_t be32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return ntohl(v); }

/* A value of the broker: `n` octets at `at`, or the number `v`; the result is the place behind it. */
typedef struct { uint8_t code, described; uint32_t v, n; const uint8_t *at; } value;
static const uint8_t *take(const uint8_t *p, value *x) {
  static const uint8_t widths[] = {0, 1, 2, 4, 8, 16};
  memset(x, 0, sizeof *x);
  if (!*p) { value d; p = take(p + 1, &d); p = take(p, x); x->described = d.v; return p; }
  x->code = *p++; int kind = x->code >> 4;
  if (kind < 4) die("a value of the broker has an unknown encoding");
  if (kind < 10) { x->n = widths[kind - 4]; x->at = p; for (uint32_t i = 0; i < x->n; i++) x->v = x->v << 8 | p[i]; }
  else if (kind & 1) { x->n = be32(p); x->at = p + 4; }
  else { x->n = *p; x->at = p + 1; }
  if (x->code == YES || (x->code == 0x56 && x->v)) x->v = 1; else if (x->code == NO || x->code == 0x56) x->v = 0;
  return kind < 10 ? p + x->n : x->at + x->n;
}
/* The fields of a performative, and the place behind it. Fields that it does not have are null. */
static const uint8_t *fields(const uint8_t *p, uint8_t *performative, value *f, int most) {
  value d, l; take(p + 1, &d); *performative = d.v; const uint8_t *behind = take(p, &l), *q = l.at; uint32_t n = 0;
  if (l.code == 0xc0) n = *q++; else if (l.code == 0xd0) { n = be32(q); q += 4; }
  for (int i = 0; i < most; i++) if ((uint32_t)i < n) q = take(q, &f[i]); else { memset(&f[i], 0, sizeof *f); f[i].code = NUL; }
  return behind;
}
static void complain(uint8_t performative, const value *error) {
  value condition = {0}, description = {0};
  if (error->code == 0xc0 || error->code == 0xd0) { const uint8_t *q = take(error->at + (error->code == 0xc0 ? 1 : 4), &condition); take(q, &description); }
  fprintf(stderr, "amqp10load: closed by broker: %#x %.*s %.*s\n", performative, (int)condition.n, (const char *)condition.at, (int)description.n, (const char *)description.at);
}

static void send_all(conn *c) { size_t off = 0; while (off < c->out.len) { ssize_t n = write(c->fd, c->out.p + off, c->out.len - off); if (n <= 0) die("write"); off += n; } c->out.len = 0; }
static void read_exact(int fd, uint8_t *p, size_t n) { while (n) { ssize_t r = read(fd, p, n); if (r <= 0) die("broker closed the connection during set-up"); p += r; n -= r; } }
static void header(conn *c, uint8_t layer) { uint8_t h[8]; read_exact(c->fd, h, 8); if (memcmp(h, "AMQP", 4) || h[4] != layer) die("the broker does not speak AMQP 1.0 with SASL"); }
static void on_flow(conn *c, const value *f) {
  if (c->consumer) return;
  c->frames_to = (f[0].code == NUL ? 0 : f[0].v) + f[1].v;
  uint32_t to = (f[5].code == NUL ? 0 : f[5].v) + f[6].v; if (f[4].code == NUL) return;
  if (f[4].v == c->handle) c->credit_to = to; else c->controls_to = to;
}
static void expect(conn *c, uint8_t wanted, value *f, int most, buf *in) {
  for (;;) {
    uint8_t h[8], got; read_exact(c->fd, h, 8); uint32_t n = be32(h) - 8;
    in->len = 0; need(in, n + 1); read_exact(c->fd, in->p, n); if (!n) continue;
    fields(in->p + h[4] * 4 - 8, &got, f, most);
    if (got == FLOW) on_flow(c, f);
    if (got == wanted) return;
    if (got == CLOSE || got == END) { complain(got, &f[0]); exit(1); }
  }
}
static int dial(const char *hp) {
  char host[256]; snprintf(host, sizeof host, "%s", hp); char *port = strrchr(host, ':'); if (!port) die("address needs host:port"); *port++ = 0;
  struct addrinfo h = {.ai_socktype = SOCK_STREAM}, *r; if (getaddrinfo(host, port, &h, &r)) die("resolve");
  int fd = socket(r->ai_family, SOCK_STREAM, 0); if (connect(fd, r->ai_addr, r->ai_addrlen)) die("connect");
  int one = 1; setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); freeaddrinfo(r);
  struct timeval tv = {60, 0}; setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv); return fd;
}
static void write_flow(conn *c) {
  size_t in, at = begin(&c->out, 0, FLOW, 7, &in); uint32_t credit = o.prefetch;
  number(&c->out, c->frames); number(&c->out, WINDOW); number(&c->out, 0); number(&c->out, WINDOW); number(&c->out, 0); number(&c->out, c->received); number(&c->out, credit);
  listed(&c->out, in); end(&c->out, at); c->renewed_at = c->received;
}
/* Opening takes four steps, so that many connections are opened at once. */
static void greet(conn *c, const char *hp, int consumer, int id) {
  c->consumer = consumer; c->id = id; c->fd = dial(hp); c->next_tag = 1;
  put(&c->out, "AMQP\3\1\0\0", 8); send_all(c);
}
static void log_in(conn *c) {
  buf in = {0}; value f[4]; header(c, 3); expect(c, MECHANISMS, f, 1, &in); free(in.p);
  size_t list, at = begin(&c->out, 1, INIT, 2, &list); text(&c->out, 0xa3, "PLAIN", 5);
  char sasl[300]; int n = snprintf(sasl, sizeof sasl, "%c%s%c%s", 0, o.user, 0, o.pass); text(&c->out, 0xa0, sasl, n); listed(&c->out, list); end(&c->out, at); send_all(c);
}
static void terminus(buf *b, uint8_t descriptor, const char *address) { size_t in = list(b, descriptor, 0xc0, 1); if (address) string(b, address); else nul(b); listed(b, in); }
static void ask(conn *c) {
  buf in = {0}, *b = &c->out; value f[4]; expect(c, OUTCOME, f, 1, &in); if (f[0].v) die("the broker refuses the login"); free(in.p);
  char q[200], address[400], host[200], name[100]; size_t list, at;
  if (o.queues == 1) snprintf(q, sizeof q, "%s", o.queue); else snprintf(q, sizeof q, "%s-%d", o.queue, c->id % o.queues);
  snprintf(address, sizeof address, o.address, q); snprintf(host, sizeof host, "vhost:%s", o.vhost); snprintf(name, sizeof name, "link-%d-%d-%d", (int)getpid(), c->consumer, c->id);
  put(b, "AMQP\0\1\0\0", 8);
  at = begin(b, 0, OPEN, 3, &list); string(b, name); string(b, host); number(b, FRAME_MAX); listed(b, list); end(b, at);
  at = begin(b, 0, BEGIN, 4, &list); nul(b); number(b, 0); number(b, WINDOW); number(b, WINDOW); listed(b, list); end(b, at);
  int mode = c->consumer ? o.autoack : o.presettled;
  at = begin(b, 0, ATTACH, 10, &list); string(b, name); number(b, 0); flag(b, c->consumer); u8(b, 0x50); u8(b, mode ? 1 : 0); u8(b, 0x50); u8(b, 0);
  terminus(b, SOURCE, c->consumer ? address : NULL); terminus(b, TARGET, c->consumer ? NULL : address); nul(b); nul(b);
  if (c->consumer) nul(b); else number(b, 0);
  listed(b, list); end(b, at);
  if (c->consumer) write_flow(c);
  else if (o.transaction) {
    snprintf(name, sizeof name, "control-%d-%d", (int)getpid(), c->id);
    at = begin(b, 0, ATTACH, 10, &list); string(b, name); number(b, 1); flag(b, 0); u8(b, 0x50); u8(b, 0); u8(b, 0x50); u8(b, 0);
    terminus(b, SOURCE, NULL); terminus(b, COORDINATOR, NULL); nul(b); nul(b); number(b, 0); listed(b, list); end(b, at);
  }
  send_all(c);
}
static void control(conn *c, uint8_t asked) { /* to the coordinator: a new transaction, or the commit of this one */
  size_t in, of, at = begin(&c->out, 0, TRANSFER, 6, &in); buf *b = &c->out; uint32_t id = c->ids++;
  number(b, 1); number(b, id); u8(b, 0xa0); u8(b, 4); u32(b, id); u8(b, 0x43); flag(b, 0); flag(b, 0); listed(b, in);
  u8(b, 0); u8(b, 0x53); u8(b, VALUE);
  if (asked == DECLARE) { of = list(b, DECLARE, 0xc0, 1); nul(b); } else { of = list(b, DISCHARGE, 0xc0, 2); text(b, 0xa0, (char *)c->transaction, c->id_n); flag(b, 0); c->discharging = id; }
  listed(b, of); end(b, at); c->frames++; c->controls++;
}
static void answered(conn *c) {
  buf in = {0}; value f[10]; header(c, 0); expect(c, OPEN, f, 3, &in); c->frame_max = f[2].code == NUL || f[2].v > FRAME_MAX ? FRAME_MAX : f[2].v;
  expect(c, BEGIN, f, 4, &in); c->frames_to = f[2].v; expect(c, ATTACH, f, 10, &in); c->handle = f[1].v;
  if (f[c->consumer ? 5 : 6].code == NUL) { expect(c, DETACH, f, 3, &in); complain(DETACH, &f[2]); exit(1); }
  if (!c->consumer && o.transaction) { expect(c, ATTACH, f, 10, &in); while (!c->controls_to) expect(c, FLOW, f, 7, &in); control(c, DECLARE); send_all(c); }
  c->sent_at = calloc(o.window + 1, 8); c->state = calloc(o.window + 1, 1);
  free(in.p); need(&c->in, 1 << 20); fcntl(c->fd, F_SETFL, O_NONBLOCK);
}
static char *nth(char *list, int i, char *out) { int n = 1; for (char *p = list; *p; p++) n += *p == ','; i %= n; char *p = list; while (i--) p = strchr(p, ',') + 1; char *e = strchrnul(p, ','); snprintf(out, 256, "%.*s", (int)(e - p), p); return out; }
static void open_conns(char *addresses, int consumers, int n) {
  char hp[256];
  for (int from = 0; from < n; from += AT_ONCE) {
    int m = n - from < AT_ONCE ? n - from : AT_ONCE; conn *c = &conns[nconns]; nconns += m;
    for (int i = 0; i < m; i++) greet(&c[i], nth(addresses, from + i, hp), consumers, from + i);
    for (int i = 0; i < m; i++) log_in(&c[i]);
    for (int i = 0; i < m; i++) ask(&c[i]);
    for (int i = 0; i < m; i++) answered(&c[i]);
  }
}
static void compose(conn *c, uint64_t seq) { /* the message's sections; with --mixed as applications send them, each another */
  static uint8_t filler[1 << 17]; if (!filler[0]) for (size_t i = 0; i < sizeof filler; i++) filler[i] = 'a' + i % 26;
  buf *b = &c->message; b->len = 0; int size = o.size; char id[64]; size_t in = list(b, HEADER, 0xc0, 1); flag(b, o.persistent); listed(b, in);
  if (o.mixed) {
    uint64_t r = seq * 0x9E3779B97F4A7C15ull; r ^= r >> 29; size = o.size / 2 + r % (o.size + 1); if (size < 20) size = 20;
    in = list(b, PROPERTIES, 0xc0, 9); snprintf(id, sizeof id, "%016llx%016llx", (unsigned long long)r, (unsigned long long)seq); string(b, id);
    nul(b); nul(b); nul(b); nul(b); snprintf(id, sizeof id, "%08x-%016llx-corr", (unsigned)c->id, (unsigned long long)r); string(b, id);
    text(b, 0xa3, "application/json", 16); nul(b); nul(b); listed(b, in);
    in = list(b, APPLICATION, 0xc1, o.sites ? 6 : 4); string(b, "trace"); snprintf(id, sizeof id, "%016llx", (unsigned long long)(r * 31)); string(b, id); string(b, "attempt"); u8(b, 0x54); u8(b, seq % 3);
    if (o.sites) { string(b, "site"); snprintf(id, sizeof id, "plant-%u", (unsigned)(r >> 8) % o.sites); string(b, id); }
    listed(b, in);
  }
  u8(b, 0); u8(b, 0x53); u8(b, DATA); if (size < 256) { u8(b, 0xa0); u8(b, size); } else { u8(b, 0xb0); u32(b, size); }
  c->body_at = b->len; for (size_t left = size; left;) { size_t n = left < sizeof filler ? left : sizeof filler; put(b, filler, n); left -= n; }
}
static void publish(conn *c, uint64_t stamp) {
  uint64_t seq = c->next_tag++; uint32_t who = c->id, id = c->ids++; buf *m = &c->message, *b = &c->out; int presettled = o.presettled;
  if (o.mixed || !m->len) compose(c, seq);
  memcpy(m->p + c->body_at, &stamp, 8); memcpy(m->p + c->body_at + 8, &seq, 8); memcpy(m->p + c->body_at + 16, &who, 4);
  for (size_t done = 0; done < m->len;) {
    size_t room = c->frame_max - TRANSFER_ROOM, n = m->len - done < room ? m->len - done : room, in, at = begin(b, 0, TRANSFER, o.transaction ? 8 : 6, &in);
    u8(b, 0x43); number(b, id); u8(b, 0xa0); u8(b, 4); u32(b, id); u8(b, 0x43); flag(b, presettled); flag(b, done + n < m->len);
    if (o.transaction) { nul(b); size_t state = list(b, TRANSACTIONAL, 0xc0, 1); text(b, 0xa0, (char *)c->transaction, c->id_n); listed(b, state); }
    listed(b, in);
    put(b, m->p + done, n); end(b, at); done += n; c->frames++;
  }
  published++;
  if (presettled) { confirmed++; c->confirmed_to++; return; }
  c->sent_at[seq % (o.window + 1)] = stamp; c->state[seq % (o.window + 1)] = 0;
}
/* The frames of the largest message: as many the broker's window has to have room for. */
static uint32_t most_frames(conn *c) { return (o.size * 2 + 512) / (c->frame_max - TRANSFER_ROOM) + 1; }
static int may_publish(conn *c) { return c->next_tag - 1 - c->confirmed_to < (uint64_t)o.window && (int32_t)(c->credit_to - (uint32_t)(c->next_tag - 1)) > 0 && (int32_t)(c->frames_to - c->frames) >= (int32_t)most_frames(c); }
static void settle(conn *c, uint32_t first, uint32_t last, int ok, uint64_t t) {
  for (uint64_t n = (uint32_t)(last - first) + 1ull, seq = c->confirmed_to + 1 + (uint32_t)(first - (uint32_t)c->confirmed_to); n--; seq++) {
    size_t k = seq % (o.window + 1); if (seq <= c->confirmed_to || seq >= c->next_tag || c->state[k]) continue; c->state[k] = 1;
    if (ok) { confirmed++; if (n_conf_lat < SAMPLES) conf_lat[n_conf_lat++] = (t - c->sent_at[k]) / 1000; } else nacked++;
  }
  while (c->confirmed_to + 1 < c->next_tag && c->state[(c->confirmed_to + 1) % (o.window + 1)]) c->confirmed_to++;
}
static void transact(conn *c) { /* with the last transaction committed, and the next one declared, the next one */
  if (!c->id_n || c->confirmed_to + 1 < c->next_tag || c->controls_to - c->controls < 2) return;
  for (int i = 0; i < o.transaction; i++) publish(c, now_ns());
  control(c, DISCHARGE); c->id_n = 0; control(c, DECLARE);
}
static void in_transaction(conn *c, const value *f, uint64_t t) { /* the outcome of a control message, or of a message for the time being */
  const value *state = &f[4]; uint32_t last = f[2].code == NUL ? f[1].v : f[2].v; value id;
  if (state->described == DECLARED) { take(state->at + (state->code == 0xc0 ? 1 : 4), &id); if (id.n > sizeof c->transaction) die("the id of a transaction is too long"); memcpy(c->transaction, id.at, id.n); c->id_n = id.n; }
  else if (state->described == 0x25) die("the broker refuses a transaction");
  else if (state->described == ACCEPTED && f[1].v <= c->discharging && c->discharging <= last) { uint64_t next = c->confirmed_to; settle(c, (uint32_t)next, (uint32_t)(c->next_tag - 2), 1, t); }
}
static void body_seen(const uint8_t *p, uint32_t n, uint64_t t) {
  if (n < 20) return; uint64_t stamp, seq; uint32_t who; memcpy(&stamp, p, 8); memcpy(&seq, p + 8, 8); memcpy(&who, p + 16, 4);
  delivered++; if ((int)who >= npub) return;
  if (n_e2e_lat < SAMPLES) e2e_lat[n_e2e_lat++] = (t - stamp) / 1000;
  if (seq / 8 >= seen_cap[who]) { uint64_t nc = (seq / 8 + 1) * 2; seen[who] = realloc(seen[who], nc); memset(seen[who] + seen_cap[who], 0, nc - seen_cap[who]); seen_cap[who] = nc; }
  if (seen[who][seq / 8] & (1 << seq % 8)) duplicates++; else { seen[who][seq / 8] |= 1 << seq % 8; if (o.consumers <= o.queues && seq < last_seq[who]) misordered++; }
  if (seq > last_seq[who]) last_seq[who] = seq;
}
static void ack(conn *c) {
  if (!c->unacked_n) return; size_t in, at = begin(&c->out, 0, DISPOSITION, 5, &in);
  flag(&c->out, 1); number(&c->out, c->first_unacked); number(&c->out, c->last_id); flag(&c->out, 1); put(&c->out, "\0\x53\x24\x45", 4); listed(&c->out, in); end(&c->out, at); c->unacked_n = 0;
}
static void on_transfer(conn *c, const value *f, const uint8_t *p, const uint8_t *behind, uint64_t t) {
  c->frames++; if (f[1].code != NUL) c->last_id = f[1].v;
  if (!c->body_first) for (value x = {0}; p < behind; ) {
    uint8_t section = p[2]; const uint8_t *next = take(p, &x);
    if (section >= DATA) { /* a body in several frames is as long as its first frame has of it */ uint32_t here = behind - x.at; octets += x.n; body_seen(x.at, x.n < here ? x.n : here, t); break; }
    p = next;
  }
  c->body_first = f[5].v == 1; if (c->body_first) return;
  if (c->received++ - c->renewed_at >= (uint32_t)o.prefetch / 2) write_flow(c);
  if (o.autoack) return;
  if (!c->unacked_n++) c->first_unacked = c->last_id;
  if (c->unacked_n >= (uint64_t)o.ack_every) ack(c);
}
static void on_input(conn *c) {
  uint64_t t = now_ns(); value f[7]; uint8_t got;
  for (;;) {
    if (c->in.len - c->in_off < 8) break;
    uint8_t *h = c->in.p + c->in_off; uint32_t n = be32(h); if (n < 8) die("bad frame size from broker");
    if (c->in.len - c->in_off < n) break;
    if (n > h[4] * 4u) {
      const uint8_t *payload = fields(h + h[4] * 4, &got, f, 7);
      if (got == TRANSFER) on_transfer(c, f, payload, h + n, t);
      else if (got == DISPOSITION) { if (f[0].v != 1 || c->consumer) {} else if (o.transaction) in_transaction(c, f, t); else settle(c, f[1].v, f[2].code == NUL ? f[1].v : f[2].v, f[4].at && f[4].code == 0x45, t); }
      else if (got == FLOW) on_flow(c, f);
      else if (got == DETACH || got == END || got == CLOSE) { complain(got, &f[got == DETACH ? 2 : 0]); closed_by_broker++; }
    }
    c->in_off += n;
  }
  if (c->in_off == c->in.len) c->in_off = c->in.len = 0;
  else if (c->in_off > c->in.cap / 2) { memmove(c->in.p, c->in.p + c->in_off, c->in.len - c->in_off); c->in.len -= c->in_off; c->in_off = 0; }
}
static int cmp(const void *a, const void *b) { uint32_t x = *(uint32_t *)a, y = *(uint32_t *)b; return x < y ? -1 : x > y; }
static void percentiles(const char *name, uint32_t *v, uint64_t n) {
  qsort(v, n, 4, cmp);
#define PC(q) (n ? v[(uint64_t)((n - 1) * (q))] / 1000.0 : 0)
  printf("\"%s\": {\"p50\": %.3f, \"p95\": %.3f, \"p99\": %.3f, \"p99.9\": %.3f, \"max\": %.3f}", name, PC(.5), PC(.95), PC(.99), PC(.999), PC(1.0));
}
/* The processor time that the processes of --watch (ids, separated by commas) have taken. */
static double processor_seconds(void) {
  unsigned long ticks = 0; char path[64], line[1024]; char *p = o.watch;
  while (*p) {
    snprintf(path, sizeof path, "/proc/%ld/stat", strtol(p, &p, 10)); if (*p == ',') p++;
    FILE *f = fopen(path, "r"); if (!f) die(path); if (!fgets(line, sizeof line, f)) die(path); fclose(f);
    unsigned long user = 0, kernel = 0; sscanf(strrchr(line, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel); ticks += user + kernel;
  }
  return (double)ticks / sysconf(_SC_CLK_TCK);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : "";
#define S(n, f) if (!strcmp(a, n)) { snprintf(o.f, sizeof o.f, "%s", v); i++; continue; }
#define I(n, f) if (!strcmp(a, n)) { o.f = atoi(v); i++; continue; }
#define F(n, f) if (!strcmp(a, n)) { o.f = atof(v); i++; continue; }
    S("--publish-to", pub_to) S("--consume-from", con_from) S("--queue", queue) S("--address", address) S("--user", user) S("--password", pass) S("--vhost", vhost) S("--watch", watch)
    I("--publishers", publishers) I("--consumers", consumers) I("--queues", queues) I("--size", size) I("--window", window) I("--prefetch", prefetch) I("--ack-every", ack_every)
    I("--persistent", persistent) I("--autoack", autoack) I("--presettled", presettled) I("--drain", drain) I("--spin", spin) I("--mixed", mixed) I("--elsewhere", elsewhere) I("--sites", sites) I("--transaction", transaction)
    S("--type", type) I("--durable", durable) I("--purge", purge) I("--declare", declare) /* these say how amqpload declares queues */
    F("--seconds", seconds) F("--rate", rate) F("--count", count)
    fprintf(stderr, "amqp10load: unknown option %s; options are listed at the top of amqp10load.c's parser\n", a); return 2;
  }
  if (o.size < 20) die("--size must be at least 20 bytes"); if (o.publishers + o.consumers > MAX_CONNS) die("too many connections");
  if (o.transaction && (o.rate > 0 || o.count || o.presettled)) die("transactions have no fixed rate or number, and no settled deliveries");
  if (o.transaction) o.window = o.transaction;
  if (!o.con_from[0]) strcpy(o.con_from, o.pub_to);
  conf_lat = malloc(SAMPLES * 4); e2e_lat = malloc(SAMPLES * 4); npub = o.publishers ? o.publishers : o.elsewhere;
  seen = calloc(npub + 1, sizeof *seen); seen_cap = calloc(npub + 1, 8); last_seq = calloc(npub + 1, 8); for (int i = 0; i < npub; i++) { seen[i] = calloc(1, 65536); seen_cap[i] = 65536; }
  open_conns(o.pub_to, 0, o.publishers); open_conns(o.con_from, 1, o.consumers);
  int ep = epoll_create1(0); for (int i = 0; i < nconns; i++) { struct epoll_event e = {.events = EPOLLIN, .data.ptr = &conns[i]}; epoll_ctl(ep, EPOLL_CTL_ADD, conns[i].fd, &e); }
  double processor_before = processor_seconds();
  uint64_t t0 = now_ns(), stop = t0 + (uint64_t)(o.seconds * 1e9), t_end = 0, deliver_end = 0, c_at_stop = 0, d_at_stop = 0; int publishing = o.publishers > 0;
  uint64_t quiet_since = t0, last_delivered = 0, alive = t0; double interval = o.rate > 0 ? 1e9 / o.rate : 0; uint64_t due = 0;
  for (;;) {
    uint64_t t = now_ns();
    if (t - alive > ALIVE) { alive = t; for (int i = 0; i < nconns; i++) put(&conns[i].out, "\0\0\0\10\2\0\0\0", 8); } /* an empty frame, for the broker's idle time-out */
    if (publishing && ((!o.count && t >= stop) || (o.count && published >= o.count))) { publishing = 0; t_end = t; c_at_stop = confirmed; d_at_stop = delivered; }
    if (publishing) {
      if (interval > 0) { while (t0 + (uint64_t)(due * interval) <= t) { conn *c = &conns[due % o.publishers]; if (!may_publish(c)) break; publish(c, t0 + (uint64_t)(due * interval)); due++; } }
      else for (int i = 0; i < o.publishers; i++) { conn *c = &conns[i]; int burst = 200; if (o.transaction) { transact(c); continue; } while (burst-- && may_publish(c) && c->out.len - c->out_off < (1 << 18) && !(o.count && published >= o.count)) publish(c, now_ns()); }
    }
    for (int i = 0; i < nconns; i++) { conn *c = &conns[i]; while (c->out_off < c->out.len) { ssize_t n = write(c->fd, c->out.p + c->out_off, c->out.len - c->out_off); if (n < 0) { if (errno == EAGAIN) break; die("broker closed the connection"); } c->out_off += n; } if (c->out_off == c->out.len) c->out_off = c->out.len = 0; }
    struct epoll_event ev[1024]; int busy = 0; for (int i = 0; i < nconns; i++) busy |= conns[i].out.len > 0;
    struct timespec w = {0, busy ? 0 : 1000000};
    if (!busy && interval > 0 && publishing) { uint64_t at = t0 + (uint64_t)(due * interval), now = now_ns(); w.tv_nsec = o.spin || at <= now ? 0 : at - now < 1000000 ? at - now : 1000000; }
    int n = epoll_pwait2(ep, ev, 1024, &w, NULL);
    for (int i = 0; i < n; i++) {
      conn *c = ev[i].data.ptr; need(&c->in, 1 << 18); ssize_t r = read(c->fd, c->in.p + c->in.len, c->in.cap - c->in.len);
      if (r == 0) die("broker closed the connection"); if (r < 0) { if (errno == EAGAIN) continue; die("read"); }
      c->in.len += r; on_input(c); if (closed_by_broker) return 1;
    }
    if (n == 0) for (int i = o.publishers; i < nconns; i++) ack(&conns[i]);
    if (delivered != last_delivered) { if (!last_delivered && !o.publishers) t0 = t; last_delivered = delivered; deliver_end = quiet_since = now_ns(); }
    if (!publishing) {
      int all = confirmed + nacked >= published && (!o.consumers || delivered - duplicates >= confirmed);
      if (o.publishers == 0 ? (t >= stop) : all) break;
      if (now_ns() - quiet_since > o.drain * 1000000000ull && now_ns() - t_end > o.drain * 1000000000ull) break;
    }
  }
  double processor = processor_seconds() - processor_before;
  for (int i = o.publishers; i < nconns; i++) { conn *c = &conns[i]; ack(c); fcntl(c->fd, F_SETFL, 0); c->out.len -= c->out_off; memmove(c->out.p, c->out.p + c->out_off, c->out.len); if (c->out.len) send_all(c); }
  double secs = ((t_end ? t_end : now_ns()) - t0) / 1e9, total = (deliver_end > t0 ? deliver_end - t0 : 1) / 1e9; uint64_t distinct = delivered - duplicates;
  if (o.publishers == 0) d_at_stop = delivered, secs = total;
  printf("{\"seconds\": %.3f, \"published\": %lu, \"confirmed\": %lu, \"nacked\": %lu, \"delivered\": %lu, \"lost\": %ld, \"duplicates\": %lu, \"redelivered\": 0, \"misordered\": %lu, \"closed\": %lu, \"octets\": %lu, \"processor_seconds\": %.2f, ",
         secs, published, confirmed, nacked, delivered, o.consumers && o.publishers ? (long)(confirmed > distinct ? confirmed - distinct : 0) : 0, duplicates, misordered, closed_by_broker, octets, processor);
  printf("\"publish_rate\": %.2f, \"deliver_rate\": %.2f, \"end_to_end_rate\": %.2f, ", c_at_stop / secs, d_at_stop / secs, o.publishers ? distinct / (total > secs ? total : secs) : delivered / total);
  percentiles("confirm_ms", conf_lat, n_conf_lat); printf(", "); percentiles("end_to_end_ms", e2e_lat, n_e2e_lat); printf("}\n");
  return 0;
}
