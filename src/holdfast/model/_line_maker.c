/* From an event's data to its line, in one go: the part of an append that may be compiled.

   `make_line` of _maker.py is the truth, and is what runs where this was not built. This takes
   nothing but what is plain, and gives the same bytes; for whatever is unusual it answers None, and
   the Python decides. It knows no layout of its own either: the head of a line comes from there.

   Written against the limited API of Python 3.11, so that one file serves every later version.
   Nothing here lets go of the interpreter's lock, and every value is held while it is looked at. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* To be raised, here and in _maker.py, with every change of what either expects of the other. */
#define ABI 1
#ifndef SOURCE
#define SOURCE 0
#endif

/* Recursion ends here whatever is asked for, and long data takes the long way anyway. */
#define DEPTH_MAX 250
#define BYTES_MAX (1 << 20)
#define NS_PER_MS 1000000
#define CRC_DIGITS 8
#define INT64_DIGITS 20
/* Up to sixteen bytes are copied at once, also where fewer are left; and two quotes. */
#define SLACK 32
#define LONGEST_ESCAPE 6
#define ROOM_ON_STACK (8 << 10)

static const char DIGITS[] = "0123456789abcdef";
static const char LINE_END[] = "\"}\n";

enum found { PLAIN = 0, UNSURE = 1, FAILED = -1 };

typedef struct {
    PyObject *event;  /* the class of events */
    PyObject *heads;  /* what a line begins with, by the event's type */
    PyObject *encode; /* a value as JSON, for floats */
} State;

/* --- the checksum: CRC-32 as zlib computes it ------------------------------------------------ */

static uint32_t crc_tables[8][256];

static void make_crc_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1)));
        crc_tables[0][byte] = crc;
    }
    for (int table = 1; table < 8; table++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = crc_tables[table - 1][byte];
            crc_tables[table][byte] = (before >> 8) ^ crc_tables[0][before & 255];
        }
}

static uint32_t four_bytes(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint32_t crc_by_tables(uint32_t crc, const unsigned char *at, size_t size)
{
    for (; size >= 8; at += 8, size -= 8) {
        uint32_t low = four_bytes(at) ^ crc, high = four_bytes(at + 4);
        crc = crc_tables[7][low & 255] ^ crc_tables[6][low >> 8 & 255]
            ^ crc_tables[5][low >> 16 & 255] ^ crc_tables[4][low >> 24]
            ^ crc_tables[3][high & 255] ^ crc_tables[2][high >> 8 & 255]
            ^ crc_tables[1][high >> 16 & 255] ^ crc_tables[0][high >> 24];
    }
    for (; size; at++, size--)
        crc = (crc >> 8) ^ crc_tables[0][(crc ^ *at) & 255];
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define HAS_FOLDING 1
static int can_fold;

static void look_at_processor(void)
{
    __builtin_cpu_init();
    can_fold = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}

#define LOAD(from) _mm_loadu_si128((const __m128i *)(from))
#define FOLD(from, by, into)                                                                       \
    _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(from, by, 0x00),                              \
                                _mm_clmulepi64_si128(from, by, 0x11)),                             \
                  into)

/* Multiplication without carries instead of tables, which are not in the cache after a system call.
   The constants are powers of x modulo the polynomial, for 512, 128 and 64 bits on, and Barrett's
   for the rest. Zeros before a message change nothing once the checksum so far is in its first
   bytes: so it is made to begin with what does not fill sixteen bytes, and needs at least four. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t
crc_by_folding(uint32_t crc, const unsigned char *at, size_t size)
{
    const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    const __m128i by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const __m128i by_64 = _mm_set_epi64x(0, 0x163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
    const __m128i halves = _mm_setr_epi32(~0, 0, ~0, 0);
    unsigned char first[32] = {0};
    size_t odd = size % 16, begun = size < 16 ? odd : odd + 16;
    uint32_t four;
    __m128i a, rest;

    memcpy(first + 16 - odd, at, begun);
    memcpy(&four, first + 16 - odd, 4);
    four ^= crc;
    memcpy(first + 16 - odd, &four, 4);
    at += begun;
    size -= begun;
    a = LOAD(first);
    if (begun >= 16)
        a = FOLD(a, by_128, LOAD(first + 16));
    if (size >= 64) {
        __m128i b = LOAD(at + 16), c = LOAD(at + 32), d = LOAD(at + 48);
        a = FOLD(a, by_128, LOAD(at));
        for (at += 64, size -= 64; size >= 64; at += 64, size -= 64) {
            a = FOLD(a, by_512, LOAD(at));
            b = FOLD(b, by_512, LOAD(at + 16));
            c = FOLD(c, by_512, LOAD(at + 32));
            d = FOLD(d, by_512, LOAD(at + 48));
        }
        a = FOLD(a, by_128, b);
        a = FOLD(a, by_128, c);
        a = FOLD(a, by_128, d);
    }
    for (; size >= 16; at += 16, size -= 16)
        a = FOLD(a, by_128, LOAD(at));
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_128, 0x10));
    rest = _mm_srli_si128(a, 4);
    a = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(a, halves), by_64, 0x00), rest);
    rest = _mm_clmulepi64_si128(_mm_and_si128(a, halves), barrett, 0x10);
    rest = _mm_clmulepi64_si128(_mm_and_si128(rest, halves), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, rest), 1);
}
#endif

static uint32_t crc_of(uint32_t crc, const char *bytes, size_t size)
{
    const unsigned char *at = (const unsigned char *)bytes;
#ifdef HAS_FOLDING
    if (can_fold && size >= 4)
        return ~crc_by_folding(~crc, at, size);
#endif
    return ~crc_by_tables(~crc, at, size);
}

/* --- data as compact JSON -------------------------------------------------------------------- */

typedef struct {
    char *bytes;
    size_t size, room;
    char *heap; /* to be freed, or NULL while what there is on the stack suffices */
} Text;

static int grow(Text *text, size_t more)
{
    size_t room = text->room;
    char *heap;
    while (more > room - text->size)
        room *= 2;
    heap = PyMem_Realloc(text->heap, room);
    if (heap == NULL) {
        PyErr_NoMemory();
        return FAILED;
    }
    if (text->heap == NULL)
        memcpy(heap, text->bytes, text->size);
    text->bytes = text->heap = heap;
    text->room = room;
    return PLAIN;
}

/* Make sure that so many bytes more have a place. */
static inline int make_room(Text *text, size_t more)
{
    return more <= text->room - text->size ? PLAIN : grow(text, more);
}

static inline int add_byte(Text *text, char byte)
{
    if (make_room(text, 1) != PLAIN)
        return FAILED;
    text->bytes[text->size++] = byte;
    return PLAIN;
}

static int add_bytes(Text *text, const char *bytes, size_t size)
{
    if (make_room(text, size) != PLAIN)
        return FAILED;
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    return PLAIN;
}

/* What follows the backslash of a byte that needs one; 'u' for its number, 0 for none. */
static char escapes[256];

static void make_escapes(void)
{
    memset(escapes, 'u', 0x20);
    escapes['\b'] = 'b';
    escapes['\t'] = 't';
    escapes['\n'] = 'n';
    escapes['\f'] = 'f';
    escapes['\r'] = 'r';
    escapes['"'] = '"';
    escapes['\\'] = '\\';
}

/* Copy STEP bytes; how many of them, up to the first that needs an escape, are good as they are. */
#if defined(__SSE2__)
#include <emmintrin.h>
#define STEP 16
static inline int copy_clean(char *to, const char *at)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)at);
    __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
    __m128i quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
    __m128i slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
    int marks = _mm_movemask_epi8(_mm_or_si128(low, _mm_or_si128(quote, slash)));
    _mm_storeu_si128((__m128i *)to, bytes);
    return marks ? __builtin_ctz((unsigned)marks) : STEP;
}
#elif defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define STEP 8
static inline int copy_clean(char *to, const char *at)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t word, quote, slash, marks;
    memcpy(&word, at, STEP);
    memcpy(to, &word, STEP);
    quote = word ^ ones * '"';
    slash = word ^ ones * '\\';
    /* The lowest mark is right; those above it may not be, and are not looked at. */
    marks = (((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash))
          & ones << 7;
    return marks ? __builtin_ctzll(marks) >> 3 : STEP;
}
#else
#define STEP 1
static inline int copy_clean(char *to, const char *at)
{
    *to = *at;
    return escapes[(unsigned char)*at] ? 0 : STEP;
}
#endif

static char *add_escape(char *to, unsigned char byte)
{
    *to++ = '\\';
    *to++ = escapes[byte];
    if (escapes[byte] == 'u') {
        *to++ = '0';
        *to++ = '0';
        *to++ = DIGITS[byte >> 4];
        *to++ = DIGITS[byte & 15];
    }
    return to;
}

/* A text between quotes. There is always a place for what is left of it, if none of it needs an
   escape, and for the bytes that are copied at once: that is made sure of at each escape. */
static int add_escaped(Text *text, const char *at, size_t size)
{
    const char *end = at + size;
    char *to, *stop;
    if (make_room(text, size + size / 8 + SLACK) != PLAIN)
        return FAILED;
    to = text->bytes + text->size;
    stop = text->bytes + text->room - SLACK;
    *to++ = '"';
    while (at < end) {
        unsigned char byte;
        while (end - at >= STEP) {
            int clean = copy_clean(to, at);
            at += clean;
            to += clean;
            if (clean < STEP)
                break;
        }
        if (at == end)
            break;
        byte = (unsigned char)*at++;
        if (!escapes[byte]) {
            *to++ = (char)byte;
            continue;
        }
        if (byte == 0)
            return UNSURE;
        if (stop - to < end - at + LONGEST_ESCAPE) {
            text->size = (size_t)(to - text->bytes);
            if (make_room(text, (size_t)(end - at) * 2 + LONGEST_ESCAPE + SLACK) != PLAIN)
                return FAILED;
            to = text->bytes + text->size;
            stop = text->bytes + text->room - SLACK;
        }
        to = add_escape(to, byte);
    }
    *to++ = '"';
    text->size = (size_t)(to - text->bytes);
    return PLAIN;
}

static int add_text(Text *text, PyObject *value, int is_key)
{
    Py_ssize_t size;
    const char *bytes = PyUnicode_AsUTF8AndSize(value, &size);
    if (bytes == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            return FAILED;
        PyErr_Clear(); /* a lone surrogate */
        return UNSURE;
    }
    if (size > BYTES_MAX || text->size > BYTES_MAX)
        return UNSURE;
    if (is_key && memchr(bytes, '$', (size_t)size) != NULL)
        return UNSURE;
    return add_escaped(text, bytes, (size_t)size);
}

/* The digits of a number, at the end of 20 bytes; where they begin. */
static char *digits_of(int64_t number, char place[INT64_DIGITS])
{
    char *at = place + INT64_DIGITS;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (number < 0)
        *--at = '-';
    return at;
}

static int add_int(Text *text, PyObject *value)
{
    char place[INT64_DIGITS], *digits;
    int overflow;
    int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow)
        return UNSURE;
    if (number == -1 && PyErr_Occurred())
        return FAILED;
    digits = digits_of(number, place);
    return add_bytes(text, digits, (size_t)(place + INT64_DIGITS - digits));
}

static int add_float(Text *text, PyObject *value, State *state)
{
    PyObject *encoded;
    char *bytes;
    Py_ssize_t size;
    int found = FAILED;
    if (!isfinite(PyFloat_AsDouble(value)))
        return UNSURE;
    encoded = PyObject_CallFunctionObjArgs(state->encode, value, NULL);
    if (encoded == NULL)
        return FAILED;
    if (PyBytes_AsStringAndSize(encoded, &bytes, &size) == 0)
        found = add_bytes(text, bytes, (size_t)size);
    Py_DECREF(encoded);
    return found;
}

static int add_value(Text *text, PyObject *value, long depth, State *state);

static int add_dict(Text *text, PyObject *value, long depth, State *state)
{
    PyObject *key, *item;
    Py_ssize_t place = 0;
    int found = add_byte(text, '{'), is_first = 1;
    while (found == PLAIN && PyDict_Next(value, &place, &key, &item)) {
        Py_INCREF(key);
        Py_INCREF(item);
        found = PyUnicode_CheckExact(key) ? PLAIN : UNSURE;
        if (found == PLAIN && !is_first)
            found = add_byte(text, ',');
        if (found == PLAIN)
            found = add_text(text, key, 1);
        if (found == PLAIN)
            found = add_byte(text, ':');
        if (found == PLAIN)
            found = add_value(text, item, depth, state);
        Py_DECREF(key);
        Py_DECREF(item);
        is_first = 0;
    }
    return found == PLAIN ? add_byte(text, '}') : found;
}

static int add_list(Text *text, PyObject *value, long depth, State *state)
{
    int found = add_byte(text, '[');
    for (Py_ssize_t index = 0; found == PLAIN && index < PyList_Size(value); index++) {
        PyObject *item = PyList_GetItem(value, index);
        if (item == NULL)
            return FAILED;
        Py_INCREF(item);
        if (index > 0)
            found = add_byte(text, ',');
        if (found == PLAIN)
            found = text->size > BYTES_MAX ? UNSURE : add_value(text, item, depth, state);
        Py_DECREF(item);
    }
    return found == PLAIN ? add_byte(text, ']') : found;
}

/* Add a value of an exact, harmless kind that is nested no deeper than it may be. */
static int add_value(Text *text, PyObject *value, long depth, State *state)
{
    if (PyUnicode_CheckExact(value))
        return add_text(text, value, 0);
    if (PyDict_CheckExact(value))
        return depth > 0 ? add_dict(text, value, depth - 1, state) : UNSURE;
    if (PyList_CheckExact(value))
        return depth > 0 ? add_list(text, value, depth - 1, state) : UNSURE;
    if (value == Py_None)
        return add_bytes(text, "null", 4);
    if (value == Py_True)
        return add_bytes(text, "true", 4);
    if (value == Py_False)
        return add_bytes(text, "false", 5);
    if (PyLong_CheckExact(value))
        return add_int(text, value);
    if (PyFloat_CheckExact(value))
        return add_float(text, value, state);
    return UNSURE;
}

/* --- the line -------------------------------------------------------------------------------- */

typedef struct {
    const char *bytes;
    size_t size;
} Part;

#define PARTS 7

/* Cut a head at the three places that are to be filled in, "%d", "%d" and "%b". */
static int cut_head(PyObject *head, Part parts[PARTS])
{
    char *at, *end;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(head, &at, &size) < 0)
        return FAILED;
    end = at + size;
    for (int part = 0; part < PARTS; part += 2) {
        char *stop = part == PARTS - 1 ? end : memchr(at, '%', (size_t)(end - at));
        if (stop == NULL || (part < PARTS - 1 && end - stop < 2)) {
            PyErr_SetString(PyExc_ValueError, "a line's head has three places to fill in");
            return FAILED;
        }
        parts[part].bytes = at;
        parts[part].size = (size_t)(stop - at);
        at = stop + 2;
    }
    return PLAIN;
}

/* The line of these parts, with the running checksum before it; that after it is put there. */
static PyObject *join_line(const Part parts[PARTS], uint32_t *crc)
{
    size_t size = CRC_DIGITS + sizeof LINE_END - 1, head;
    PyObject *line;
    char *begin, *at;
    for (int part = 0; part < PARTS; part++)
        size += parts[part].size;
    line = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (line == NULL)
        return NULL;
    begin = at = PyBytes_AsString(line);
    for (int part = 0; part < PARTS; part++) {
        memcpy(at, parts[part].bytes, parts[part].size);
        at += parts[part].size;
    }
    head = (size_t)(at - begin);
    *crc = crc_of(*crc, begin, head);
    for (int shift = 4 * CRC_DIGITS - 4; shift >= 0; shift -= 4)
        *at++ = DIGITS[*crc >> shift & 15];
    memcpy(at, LINE_END, sizeof LINE_END - 1);
    *crc = crc_of(*crc, begin + head, size - head);
    return line;
}

/* Milliseconds, as `//` gives them, of the nanoseconds that the clock tells. */
static int read_clock(PyObject *clock, int64_t *stamp)
{
    int64_t ns;
    PyObject *told = PyObject_CallNoArgs(clock);
    if (told == NULL)
        return FAILED;
    ns = PyLong_AsLongLong(told);
    Py_DECREF(told);
    if (ns == -1 && PyErr_Occurred())
        return FAILED;
    *stamp = ns / NS_PER_MS - (ns % NS_PER_MS < 0);
    return PLAIN;
}

/* Event, line and checksum, once the data is there as bytes. */
static PyObject *finish(State *state, PyObject *const *given, PyObject *head, const Text *text)
{
    PyObject *stamp_object, *raw = NULL, *event = NULL, *line = NULL, *crc_object = NULL;
    PyObject *made = NULL;
    char seq_place[INT64_DIGITS], stamp_place[INT64_DIGITS];
    Part parts[PARTS];
    int64_t stamp, seq = PyLong_AsLongLong(given[2]);
    uint32_t crc;
    unsigned long before;
    if (seq == -1 && PyErr_Occurred())
        return NULL;
    before = PyLong_AsUnsignedLong(given[3]);
    if (before == (unsigned long)-1 && PyErr_Occurred())
        return NULL;
    crc = (uint32_t)before;
    if (cut_head(head, parts) != PLAIN || read_clock(given[4], &stamp) != PLAIN)
        return NULL;
    parts[1].bytes = digits_of(seq, seq_place);
    parts[1].size = (size_t)(seq_place + INT64_DIGITS - parts[1].bytes);
    parts[3].bytes = digits_of(stamp, stamp_place);
    parts[3].size = (size_t)(stamp_place + INT64_DIGITS - parts[3].bytes);
    parts[5].bytes = text->bytes;
    parts[5].size = text->size;
    line = join_line(parts, &crc);
    raw = PyBytes_FromStringAndSize(text->bytes, (Py_ssize_t)text->size);
    stamp_object = PyLong_FromLongLong(stamp);
    crc_object = PyLong_FromUnsignedLong(crc);
    if (line && raw && stamp_object && crc_object)
        event = PyObject_CallFunctionObjArgs(state->event, given[0], given[2], stamp_object, raw,
                                             NULL);
    if (event)
        made = PyTuple_Pack(3, event, line, crc_object);
    Py_XDECREF(event);
    Py_XDECREF(line);
    Py_XDECREF(raw);
    Py_XDECREF(stamp_object);
    Py_XDECREF(crc_object);
    return made;
}

PyDoc_STRVAR(make_line_doc,
             "make_line(type, data, seq, crc, clock, depth)\n--\n\n"
             "As the function of _maker.py: event, line and checksum, or None.");

static PyObject *make_line(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    State *state = PyModule_GetState(module);
    PyObject *head, *made = NULL;
    char on_stack[ROOM_ON_STACK];
    Text text = {on_stack, 0, sizeof on_stack, NULL};
    long depth;
    int found;
    if (count != 6 || state == NULL || state->event == NULL) {
        PyErr_SetString(PyExc_TypeError, "make_line takes six arguments, once it is bound");
        return NULL;
    }
    depth = PyLong_AsLong(given[5]);
    if (depth == -1 && PyErr_Occurred())
        return NULL;
    if (!PyUnicode_CheckExact(given[0]) || !PyDict_CheckExact(given[1]))
        Py_RETURN_NONE;
    head = PyDict_GetItemWithError(state->heads, given[0]);
    if (head == NULL) {
        if (PyErr_Occurred())
            return NULL;
        Py_RETURN_NONE;
    }
    Py_INCREF(head);
    found = add_value(&text, given[1], depth < DEPTH_MAX ? depth : DEPTH_MAX, state);
    if (found == PLAIN)
        made = finish(state, given, head, &text);
    else if (found == UNSURE)
        made = Py_NewRef(Py_None);
    Py_DECREF(head);
    PyMem_Free(text.heap);
    return made;
}

/* --- the module ------------------------------------------------------------------------------ */

static int forget(PyObject *module)
{
    State *state = PyModule_GetState(module);
    if (state != NULL) {
        Py_CLEAR(state->event);
        Py_CLEAR(state->heads);
        Py_CLEAR(state->encode);
    }
    return 0;
}

static int visit_all(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    if (state != NULL) {
        Py_VISIT(state->event);
        Py_VISIT(state->heads);
        Py_VISIT(state->encode);
    }
    return 0;
}

static void free_module(void *module)
{
    forget((PyObject *)module);
}

PyDoc_STRVAR(bind_doc, "bind(event, heads, encode)\n--\n\nWhat make_line is to use.");

static PyObject *bind(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    State *state = PyModule_GetState(module);
    if (state == NULL || count != 3 || !PyDict_CheckExact(given[1])) {
        PyErr_SetString(PyExc_TypeError, "bind takes a class, a dict and a function");
        return NULL;
    }
    forget(module);
    state->event = Py_NewRef(given[0]);
    state->heads = Py_NewRef(given[1]);
    state->encode = Py_NewRef(given[2]);
    Py_RETURN_NONE;
}

static int begin(PyObject *module)
{
    make_crc_tables();
    make_escapes();
#ifdef HAS_FOLDING
    look_at_processor();
#endif
    if (PyModule_AddIntConstant(module, "ABI", ABI) < 0)
        return -1;
    return PyModule_AddIntConstant(module, "SOURCE", SOURCE);
}

static PyMethodDef methods[] = {
    {"make_line", (PyCFunction)(void (*)(void))make_line, METH_FASTCALL, make_line_doc},
    {"bind", (PyCFunction)(void (*)(void))bind, METH_FASTCALL, bind_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)begin},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_line_maker",
    .m_size = sizeof(State),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = visit_all,
    .m_clear = forget,
    .m_free = free_module,
};

PyMODINIT_FUNC PyInit__line_maker(void)
{
    return PyModuleDef_Init(&definition);
}
