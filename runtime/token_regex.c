/* token_regex.c - the expressions that cut text into pieces before byte pairs are merged.
 *
 * A small backtracking matcher for the dialect that the pre-tokenizers need:
 *   alternatives | in order, first match wins      (?: ) groups, optionally ? or *
 *   [...] [^...] classes, [...&&[...]] both         \s \S \d \r \n \t \p{L} \p{N} \p{P} \p{S} \p{M}
 * \u{HEX} ? * + {n} {n,m} on a character or class, greedy (?!c) not followed by class c        $
 * end of the piece
 *   (#c) or (#cd) the next group of digits of class c when they are grouped in threes from the
 * right; nothing matches if a d follows the digits A starred group is possessive. Ranges in classes
 * see every non-ASCII white space as U+000B.
 *
 * Time stays linear in practice: a greedy loop over a class that failed from one start fails from
 * every later start inside the same run, and this is remembered (RegexMemo). A budget stops what
 * only a damaged expression can do. */
#include <string.h>
#include "token_parts.h"
#include "unicode_tables.h"

enum { REGEX_NO_CLASS = UINT16_MAX, REGEX_NO_LIMIT = UINT16_MAX, REGEX_MAX_DEPTH = 8 };

typedef enum {
    OP_FAIL,
    OP_MATCH,
    OP_CLASS,     /* class arg, min..max times */
    OP_SPLIT,     /* try the next op; then arg */
    OP_JUMP,      /* to arg */
    OP_STAR,      /* the next ops up to OP_MATCH, as often as possible; then arg */
    OP_NOT_AHEAD, /* class arg does not follow */
    OP_END,       /* end of the piece */
    OP_DIGITS     /* class arg, stop class min (or REGEX_NO_CLASS) */
} OpKind;

/* ---- characters ------------------------------------------------------------------------------ */

static bool is_space(uint32_t cp) {
    if (cp < 0x80) return (cp >= 0x09 && cp <= 0x0d) || cp == 0x20;
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

uint8_t unicode_class(uint32_t cp) {
    size_t lo = 0, hi = sizeof unicode_runs / sizeof unicode_runs[0];
    while (hi - lo > 1) { /* the last run that begins at or before cp */
        size_t mid = lo + (hi - lo) / 2;
        if (unicode_runs[mid] >> 8 <= cp) lo = mid;
        else hi = mid;
    }
    return (uint8_t)((unicode_runs[lo] & 0xff) | (is_space(cp) ? UNICODE_SPACE : 0));
}

static bool class_has(const Regex *r, uint32_t index, uint32_t cp, uint8_t classes) {
    for (int depth = 0; index != REGEX_NO_CLASS && depth < REGEX_MAX_DEPTH; depth++) {
        const RegexClass *c = &r->classes[index];
        bool in = (c->classes & classes) != 0;
        uint32_t x = cp >= 0x80 && (classes & UNICODE_SPACE) ? 0x0b : cp;
        for (uint32_t i = c->first; !in && i < (uint32_t)c->first + c->n; i++)
            in = x >= r->ranges[i].first && x <= r->ranges[i].last;
        if (in == c->negate) return false;
        index = c->also;
    }
    return true;
}

/* ---- compiling ------------------------------------------------------------------------------- */

typedef struct {
    Regex *r;
    const char *s, *end;
    int depth;
    bool bad;
} Parser;

static uint16_t emit(Parser *p, OpKind kind, uint32_t arg) {
    if (p->r->n_ops == REGEX_MAX_OPS) {
        p->bad = true;
        return 0;
    }
    p->r->ops[p->r->n_ops] = (RegexOp){.kind = (uint8_t)kind, .arg = (uint16_t)arg};
    return p->r->n_ops++;
}

static bool take(Parser *p, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(p->end - p->s) < n || memcmp(p->s, word, n) != 0) return false;
    p->s += n;
    return true;
}

static void add_range(Parser *p, RegexClass *c, uint32_t first, uint32_t last) {
    if (p->r->n_ranges == REGEX_MAX_RANGES || first > last) {
        p->bad = true;
        return;
    }
    p->r->ranges[p->r->n_ranges++] = (RegexRange){first, last};
    c->n++;
}

static uint32_t parse_hex(Parser *p) /* behind "{" */
{
    uint32_t x = 0;
    while (p->s < p->end && *p->s != '}') {
        uint32_t d = (uint8_t)*p->s++;
        if (d >= '0' && d <= '9') d -= '0';
        else if (d >= 'A' && d <= 'F') d -= 'A' - 10;
        else p->bad = true;
        x = (x << 4 | (d & 15)) & 0x1fffff;
    }
    if (!take(p, "}")) p->bad = true;
    return x;
}

static void parse_property(Parser *p, RegexClass *c) /* behind "\p" */
{
    static const char names[] = "LNPSM";
    const char *name = p->end - p->s >= 3 && p->s[0] == '{' && p->s[2] == '}' && p->s[1]
                           ? strchr(names, p->s[1])
                           : NULL;
    if (!name) {
        p->bad = true;
        return;
    }
    c->classes |= (uint8_t)(1 << (name - names));
    p->s += 3;
}

/* One character, as itself or escaped; the sets \s \d \p go into the class, and false is
 * returned. */
static bool parse_char(Parser *p, RegexClass *c, uint32_t *cp) {
    if (p->s == p->end) {
        p->bad = true;
        return false;
    }
    if (*p->s != '\\') {
        p->s += utf8_decode(p->s, (size_t)(p->end - p->s), cp);
        return true;
    }
    p->s++;
    if (take(p, "s")) return c->classes |= UNICODE_SPACE, false;
    if (take(p, "d")) return add_range(p, c, '0', '9'), false;
    if (take(p, "p")) return parse_property(p, c), false;
    if (take(p, "u{")) return *cp = parse_hex(p), true;
    if (take(p, "r")) return *cp = '\r', true;
    if (take(p, "n")) return *cp = '\n', true;
    if (take(p, "t")) return *cp = '\t', true;
    if (p->s == p->end) return p->bad = true, false;
    *cp = (uint8_t)*p->s++;
    return true;
}

static uint16_t parse_class(Parser *p);

static void parse_set(Parser *p, RegexClass *c) /* behind "[" */
{
    c->negate = take(p, "^");
    while (!p->bad && !take(p, "]")) {
        uint32_t first, last;
        if (take(p, "&&")) {
            c->also = parse_class(p);
        } else if (parse_char(p, c, &first)) {
            last = first;
            if (p->end - p->s >= 2 && p->s[0] == '-' && p->s[1] != ']') {
                p->s++;
                if (!parse_char(p, c, &last)) p->bad = true;
            }
            add_range(p, c, first, last);
        }
    }
}

static bool same_class(const Regex *r, const RegexClass *a, const RegexClass *b) {
    return a->classes == b->classes && a->negate == b->negate && a->n == b->n &&
           a->also == b->also &&
           memcmp(&r->ranges[a->first], &r->ranges[b->first], a->n * sizeof r->ranges[0]) == 0;
}

static uint16_t parse_class(Parser *p) {
    Regex *r = p->r;
    RegexClass c = {.first = r->n_ranges, .also = REGEX_NO_CLASS};
    uint32_t cp;
    if (++p->depth > REGEX_MAX_DEPTH) p->bad = true;
    if (p->bad) return 0;
    if (take(p, "[")) {
        parse_set(p, &c);
    } else if (take(p, "\\S")) {
        c.classes = UNICODE_SPACE;
        c.negate = true;
    } else if (parse_char(p, &c, &cp)) {
        add_range(p, &c, cp, cp);
    }
    p->depth--;
    for (uint16_t i = 0; !p->bad && i < r->n_classes; i++) {
        if (!same_class(r, &r->classes[i], &c)) continue;
        r->n_ranges = c.first;
        return i;
    }
    if (p->bad || r->n_classes == REGEX_MAX_CLASSES) {
        p->bad = true;
        return 0;
    }
    r->classes[r->n_classes] = c;
    for (uint32_t x = 0; x < 128; x++)
        if (class_has(r, r->n_classes, x, unicode_class(x)))
            r->classes[r->n_classes].ascii[x >> 6] |= 1ull << (x & 63);
    return r->n_classes++;
}

static uint16_t parse_number(Parser *p) {
    uint32_t x = 0;
    if (p->s == p->end || *p->s < '0' || *p->s > '9') p->bad = true;
    while (p->s < p->end && *p->s >= '0' && *p->s <= '9') {
        x = x * 10 + (uint32_t)(*p->s++ - '0');
        if (x > 10000) p->bad = true, x = 0;
    }
    return (uint16_t)x;
}

static void parse_count(Parser *p, RegexOp *op) {
    op->min = op->max = 1;
    if (take(p, "?")) {
        op->min = 0;
    } else if (take(p, "*")) {
        op->min = 0;
        op->max = REGEX_NO_LIMIT;
    } else if (take(p, "+")) {
        op->max = REGEX_NO_LIMIT;
    } else if (take(p, "{")) {
        op->min = op->max = parse_number(p);
        if (take(p, ",")) op->max = parse_number(p);
        if (!take(p, "}") || op->max < op->min) p->bad = true;
    }
}

/* Behind the closing parenthesis of the group whose content begins at s. */
static const char *group_end(const char *s, const char *end) {
    int depth = 1;
    bool set = false;
    for (; s < end; s++) {
        if (*s == '\\') s++;
        else if (set) set = *s != ']';
        else if (*s == '[') set = true;
        else if (*s == '(') depth++;
        else if (*s == ')' && --depth == 0) return s + 1;
    }
    return end;
}

static void parse_alternatives(Parser *p, bool inner);

static void parse_group(Parser *p) /* behind "(?:" */
{
    const char *behind = group_end(p->s, p->end);
    char quantifier = behind < p->end ? *behind : 0;
    bool star = quantifier == '*', optional = quantifier == '?';
    uint16_t head = 0;
    if (++p->depth > REGEX_MAX_DEPTH) p->bad = true;
    if (p->bad) return;
    if (star || optional) head = emit(p, star ? OP_STAR : OP_SPLIT, 0);
    parse_alternatives(p, true);
    if (!take(p, ")")) p->bad = true;
    if (star) emit(p, OP_MATCH, 0);
    if (star || optional) {
        p->s += p->s < p->end;
        p->r->ops[head].arg = p->r->n_ops;
    }
    p->depth--;
}

static void parse_item(Parser *p) {
    if (take(p, "(?:")) {
        parse_group(p);
    } else if (take(p, "(?!")) {
        emit(p, OP_NOT_AHEAD, parse_class(p));
        if (!take(p, ")")) p->bad = true;
    } else if (take(p, "(#")) {
        uint16_t op = emit(p, OP_DIGITS, parse_class(p));
        p->r->ops[op].min = p->s < p->end && *p->s != ')' ? parse_class(p)
                                                          : (uint16_t)REGEX_NO_CLASS;
        if (!take(p, ")")) p->bad = true;
    } else if (take(p, "$")) {
        emit(p, OP_END, 0);
    } else if (p->s < p->end && strchr("(*+?{", *p->s)) {
        p->bad = true;
    } else {
        uint16_t op = emit(p, OP_CLASS, parse_class(p));
        if (!p->bad) parse_count(p, &p->r->ops[op]);
    }
}

/* SPLIT next; items; JUMP behind (or MATCH); next: SPLIT ...; FAIL. */
static void parse_alternatives(Parser *p, bool inner) {
    uint16_t jumps = UINT16_MAX; /* chained through arg */
    do {
        uint16_t split = emit(p, OP_SPLIT, 0);
        while (!p->bad && p->s < p->end && *p->s != '|' && *p->s != ')') parse_item(p);
        uint16_t jump = emit(p, inner ? OP_JUMP : OP_MATCH, jumps);
        jumps = jump;
        p->r->ops[split].arg = p->r->n_ops;
    } while (!p->bad && take(p, "|"));
    emit(p, OP_FAIL, 0);
    while (inner && !p->bad && jumps != UINT16_MAX) {
        uint16_t next = p->r->ops[jumps].arg;
        p->r->ops[jumps].arg = p->r->n_ops;
        jumps = next;
    }
}

bool regex_compile(Regex *r, const char *exprs, size_t bytes) {
    memset(r, 0, sizeof *r);
    while (bytes) {
        const char *nul = memchr(exprs, 0, bytes);
        if (!nul || nul == exprs || r->n_exprs == REGEX_MAX_EXPRS) return false;
        Parser p = {.r = r, .s = exprs, .end = nul};
        r->start[r->n_exprs++] = r->n_ops;
        parse_alternatives(&p, false);
        if (p.bad || p.s != p.end) return false;
        bytes -= (size_t)(nul + 1 - exprs);
        exprs = nul + 1;
    }
    return true;
}

/* ---- matching -------------------------------------------------------------------------------- */

/* OP_CLASS: the loop was tried at `from` and failed, its run ends at `to`. OP_DIGITS: the run of
 * digits [from, to). */
typedef struct {
    uint32_t from, to;
} RegexMemo;

typedef struct {
    const Regex *r;
    const uint32_t *cps;
    const uint8_t *classes;
    uint32_t end; /* of the piece */
    int64_t budget;
    RegexMemo memo[REGEX_MAX_OPS];
} Matcher;

static bool matches(const Matcher *m, uint32_t index, uint32_t i) {
    uint32_t cp = m->cps[i];
    if (cp < 128) return m->r->classes[index].ascii[cp >> 6] >> (cp & 63) & 1;
    return class_has(m->r, index, cp, m->classes[i]);
}

static uint32_t run_length(const Matcher *m, uint32_t index, uint32_t pos, uint32_t max) {
    uint32_t n = 0;
    while (n < max && pos + n < m->end && matches(m, index, pos + n)) n++;
    return n;
}

static int64_t match_from(Matcher *m, uint32_t pc, uint32_t pos);

/* A greedy loop: as many as possible, then fewer until the rest matches. */
static int64_t match_loop(Matcher *m, uint32_t pc, uint32_t pos) {
    const RegexOp *op = &m->r->ops[pc];
    bool unlimited = op->max == REGEX_NO_LIMIT;
    RegexMemo *memo = &m->memo[pc];
    if (unlimited && pos >= memo->from && pos < memo->to) return -1;
    uint32_t n = run_length(m, op->arg, pos, unlimited ? UINT32_MAX : op->max);
    m->budget -= n;
    for (int64_t k = n; k >= op->min; k--) {
        int64_t r = match_from(m, pc + 1, pos + (uint32_t)k);
        if (r >= 0) return r;
    }
    if (unlimited) *memo = (RegexMemo){pos, pos + n};
    return -1;
}

static int64_t match_digits(Matcher *m, uint32_t pc, uint32_t pos) {
    const RegexOp *op = &m->r->ops[pc];
    RegexMemo *memo = &m->memo[pc];
    if (pos < memo->from || pos >= memo->to)
        *memo = (RegexMemo){pos, pos + run_length(m, op->arg, pos, UINT32_MAX)};
    if (memo->to == pos) return -1;
    if (op->min != REGEX_NO_CLASS && memo->to < m->end && matches(m, op->min, memo->to)) return -1;
    return pos + (memo->to - pos - 1) % 3 + 1;
}

/* The end of the match at pos, or -1. Ops only lead forward, so the recursion is no deeper than the
 * expression is long. */
static int64_t match_from(Matcher *m, uint32_t pc, uint32_t pos) {
    for (;;) {
        const RegexOp *op = &m->r->ops[pc];
        int64_t r;
        if (--m->budget < 0) return -1;
        switch ((OpKind)op->kind) {
        case OP_MATCH: return pos;
        case OP_CLASS:
            if (op->max != 1 || op->min != 1) return match_loop(m, pc, pos);
            if (pos >= m->end || !matches(m, op->arg, pos)) return -1;
            pos++, pc++;
            break;
        case OP_SPLIT:
            r = match_from(m, pc + 1, pos);
            if (r >= 0) return r;
            pc = op->arg;
            break;
        case OP_JUMP: pc = op->arg; break;
        case OP_STAR:
            while ((r = match_from(m, pc + 1, pos)) > pos) pos = (uint32_t)r;
            pc = op->arg;
            break;
        case OP_NOT_AHEAD:
            if (pos < m->end && matches(m, op->arg, pos)) return -1;
            pc++;
            break;
        case OP_END:
            if (pos != m->end) return -1;
            pc++;
            break;
        case OP_DIGITS:
            r = match_digits(m, pc, pos);
            if (r < 0) return -1;
            pos = (uint32_t)r, pc++;
            break;
        case OP_FAIL:
        default: return -1;
        }
    }
}

/* Every match and every gap between matches becomes a piece. */
static void split_piece(Matcher *m, uint32_t expr, uint32_t pos, uint8_t *cuts) {
    while (pos < m->end && m->budget >= 0) {
        int64_t end = match_from(m, m->r->start[expr], pos);
        if (end > pos) {
            cuts[pos] = cuts[end] = 1;
            pos = (uint32_t)end;
        } else {
            pos++;
        }
    }
}

bool regex_split(const Regex *r, const uint32_t *cps, const uint8_t *classes, size_t n,
                 uint8_t *cuts) {
    Matcher m = {.r = r, .cps = cps, .classes = classes, .budget = ((int64_t)n + 1000) * 1000};
    memset(cuts, 0, n + 1);
    cuts[0] = cuts[n] = 1;
    for (uint32_t e = 0; e < r->n_exprs && m.budget >= 0; e++) {
        for (uint32_t pos = 0; pos < n; pos = m.end) {
            /* the border that follows; cuts made inside a piece are behind it by then */
            m.end = pos + 1;
            while (!cuts[m.end]) m.end++;
            split_piece(&m, e, pos, cuts);
        }
    }
    return m.budget >= 0;
}
