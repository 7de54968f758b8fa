// Complex arithmetic and discrete Fourier transforms of 2 to 16 and of 32 values in registers, forward, natural order. Products of two
// coprime radices are transforms of rows and columns without factors between (Good, The interaction algorithm and practical
// Fourier analysis, 1958).

vec2 cmul(vec2 a, vec2 b) { return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
vec2 conj(vec2 a) { return vec2(a.x, -a.y); }
vec2 times_minus_i(vec2 a) { return vec2(a.y, -a.x); }  // times -i

void bf(inout vec2 u[2]) {
    vec2 a = u[0];
    u[0] = a + u[1];
    u[1] = a - u[1];
}

void bf4(inout vec2 a, inout vec2 b, inout vec2 c, inout vec2 d) {
    vec2 s = a + c, t = a - c, p = b + d, q = times_minus_i(b - d);
    a = s + p;
    b = t + q;
    c = s - p;
    d = t - q;
}

void bf(inout vec2 u[4]) { bf4(u[0], u[1], u[2], u[3]); }

void bf(inout vec2 u[3]) {
    vec2 s = u[1] + u[2], d = 0.86602540378443864676 * times_minus_i(u[1] - u[2]), m = u[0] - 0.5 * s;
    u[0] += s;
    u[1] = m + d;
    u[2] = m - d;
}

void bf(inout vec2 u[5]) {
    const float c1 = 0.30901699437494742410, c2 = -0.80901699437494742410;
    const float s1 = 0.95105651629515357212, s2 = 0.58778525229247312917;
    vec2 p = u[1] + u[4], q = u[2] + u[3], d = u[1] - u[4], e = u[2] - u[3];
    vec2 m = u[0] + c1 * p + c2 * q, n = u[0] + c2 * p + c1 * q;
    vec2 v = times_minus_i(s1 * d + s2 * e), w = times_minus_i(s2 * d - s1 * e);
    u[0] += p + q;
    u[1] = m + v;
    u[2] = n + w;
    u[3] = n - w;
    u[4] = m - v;
}

void bf(inout vec2 u[7]) {
    const float c1 = 0.62348980185873353053, c2 = -0.22252093395631440429, c3 = -0.90096886790241912624;
    const float s1 = 0.78183148246802980871, s2 = 0.97492791218182360702, s3 = 0.43388373911755812048;
    vec2 p = u[1] + u[6], q = u[2] + u[5], r = u[3] + u[4];
    vec2 d = u[1] - u[6], e = u[2] - u[5], f = u[3] - u[4];
    vec2 l = u[0] + c1 * p + c2 * q + c3 * r;
    vec2 m = u[0] + c2 * p + c3 * q + c1 * r;
    vec2 n = u[0] + c3 * p + c1 * q + c2 * r;
    vec2 v = times_minus_i(s1 * d + s2 * e + s3 * f);
    vec2 w = times_minus_i(s2 * d - s3 * e - s1 * f);
    vec2 x = times_minus_i(s3 * d - s1 * e + s2 * f);
    u[0] += p + q + r;
    u[1] = l + v;
    u[2] = m + w;
    u[3] = n + x;
    u[4] = n - x;
    u[5] = m - w;
    u[6] = l - v;
}

// Larger primes by the same symmetry; COS and SIN hold cos and sin of 2 pi k / P.
#define PRIME(P, COS, SIN) \
void bf(inout vec2 u[P]) { \
    vec2 x[P]; \
    x[0] = u[0]; \
    [[unroll]] for (uint m = 1u; m <= (P - 1u) / 2u; ++m) x[0] += u[m] + u[P - m]; \
    [[unroll]] for (uint k = 1u; k <= (P - 1u) / 2u; ++k) { \
        vec2 a = u[0], b = vec2(0.0); \
        [[unroll]] for (uint m = 1u; m <= (P - 1u) / 2u; ++m) { \
            a += COS[k * m % P] * (u[m] + u[P - m]); \
            b += SIN[k * m % P] * (u[m] - u[P - m]); \
        } \
        b = times_minus_i(b); \
        x[k] = a + b; \
        x[P - k] = a - b; \
    } \
    u = x; \
}

const float COS11[11] = float[](1.0, 0.84125353283118116886, 0.41541501300188642553, -0.14231483827328514044,
    -0.65486073394528506406, -0.95949297361449738989, -0.95949297361449738989, -0.65486073394528506406,
    -0.14231483827328514044, 0.41541501300188642553, 0.84125353283118116886);
const float SIN11[11] = float[](0.0, 0.54064081745559758211, 0.90963199535451837141, 0.98982144188093273238,
    0.75574957435425828377, 0.28173255684142969771, -0.28173255684142969771, -0.75574957435425828377,
    -0.98982144188093273238, -0.90963199535451837141, -0.54064081745559758211);
const float COS13[13] = float[](1.0, 0.88545602565320989590, 0.56806474673115580251, 0.12053668025532305335,
    -0.35460488704253562597, -0.74851074817110109863, -0.97094181742605202716, -0.97094181742605202716,
    -0.74851074817110109863, -0.35460488704253562597, 0.12053668025532305335, 0.56806474673115580251,
    0.88545602565320989590);
const float SIN13[13] = float[](0.0, 0.46472317204376854566, 0.82298386589365639458, 0.99270887409805399280,
    0.93501624268541482344, 0.66312265824079520238, 0.23931566428755776715, -0.23931566428755776715,
    -0.66312265824079520238, -0.93501624268541482344, -0.99270887409805399280, -0.82298386589365639458,
    -0.46472317204376854566);
PRIME(11, COS11, SIN11)
PRIME(13, COS13, SIN13)

const float HALF_ROOT = 0.70710678118654752440;

void bf(inout vec2 u[8]) {
    bf4(u[0], u[2], u[4], u[6]);
    bf4(u[1], u[3], u[5], u[7]);
    vec2 a = u[1], b = HALF_ROOT * vec2(u[3].x + u[3].y, u[3].y - u[3].x);
    vec2 c = times_minus_i(u[5]), d = HALF_ROOT * vec2(u[7].y - u[7].x, -u[7].y - u[7].x);
    vec2 e = u[0], f = u[2], g = u[4], h = u[6];
    u[0] = e + a;
    u[1] = f + b;
    u[2] = g + c;
    u[3] = h + d;
    u[4] = e - a;
    u[5] = f - b;
    u[6] = g - c;
    u[7] = h - d;
}

void bf(inout vec2 u[16]) {
    const float c = 0.92387953251128675613, s = 0.38268343236508977173, h = HALF_ROOT;
    bf4(u[0], u[4], u[8], u[12]);
    bf4(u[1], u[5], u[9], u[13]);
    bf4(u[2], u[6], u[10], u[14]);
    bf4(u[3], u[7], u[11], u[15]);
    vec2 y[16];
    y[0] = u[0];
    y[1] = u[1];
    y[2] = u[2];
    y[3] = u[3];
    y[4] = u[4];
    y[5] = cmul(u[5], vec2(c, -s));
    y[6] = h * vec2(u[6].x + u[6].y, u[6].y - u[6].x);
    y[7] = cmul(u[7], vec2(s, -c));
    y[8] = u[8];
    y[9] = h * vec2(u[9].x + u[9].y, u[9].y - u[9].x);
    y[10] = times_minus_i(u[10]);
    y[11] = h * vec2(u[11].y - u[11].x, -u[11].y - u[11].x);
    y[12] = u[12];
    y[13] = cmul(u[13], vec2(s, -c));
    y[14] = h * vec2(u[14].y - u[14].x, -u[14].y - u[14].x);
    y[15] = cmul(u[15], vec2(-c, s));
    bf4(y[0], y[1], y[2], y[3]);
    bf4(y[4], y[5], y[6], y[7]);
    bf4(y[8], y[9], y[10], y[11]);
    bf4(y[12], y[13], y[14], y[15]);
    [[unroll]] for (uint k = 0u; k < 4u; ++k)
        [[unroll]] for (uint m = 0u; m < 4u; ++m) u[k + 4u * m] = y[4u * k + m];
}

// Powers of the root of 32.
const vec2 ROOTS32[22] = vec2[](
    vec2(1.0, 0.0), vec2(0.98078528040323043, -0.19509032201612825),
    vec2(0.92387953251128674, -0.38268343236508978), vec2(0.83146961230254524, -0.55557023301960218),
    vec2(0.70710678118654757, -0.70710678118654746), vec2(0.55557023301960229, -0.83146961230254524),
    vec2(0.38268343236508984, -0.92387953251128674), vec2(0.19509032201612833, -0.98078528040323043),
    vec2(0.0, -1.0), vec2(-0.19509032201612819, -0.98078528040323043),
    vec2(-0.38268343236508973, -0.92387953251128674), vec2(-0.55557023301960196, -0.83146961230254546),
    vec2(-0.70710678118654746, -0.70710678118654757), vec2(-0.83146961230254535, -0.55557023301960218),
    vec2(-0.92387953251128674, -0.38268343236508989), vec2(-0.98078528040323043, -0.19509032201612861),
    vec2(-1.0, 0.0), vec2(-0.98078528040323043, 0.19509032201612836),
    vec2(-0.92387953251128685, 0.38268343236508967), vec2(-0.83146961230254546, 0.55557023301960196),
    vec2(-0.70710678118654768, 0.70710678118654746), vec2(-0.55557023301960218, 0.83146961230254524));

void bf(inout vec2 u[32]) {
    vec2 y[32];
    [[unroll]] for (uint m = 0u; m < 8u; ++m) {
        vec2 a[4] = vec2[](u[m], u[m + 8u], u[m + 16u], u[m + 24u]);
        bf(a);
        [[unroll]] for (uint k = 0u; k < 4u; ++k) y[8u * k + m] = m * k == 0u ? a[k] : cmul(a[k], ROOTS32[m * k]);
    }
    [[unroll]] for (uint k = 0u; k < 4u; ++k) {
        vec2 b[8];
        [[unroll]] for (uint m = 0u; m < 8u; ++m) b[m] = y[8u * k + m];
        bf(b);
        [[unroll]] for (uint m = 0u; m < 8u; ++m) u[k + 4u * m] = b[m];
    }
}

// Of R = A B values, coprime. KA is 1 modulo A and 0 modulo B, KB the other way round.
#define COPRIME(R, A, B, KA, KB) \
void bf(inout vec2 u[R]) { \
    vec2 y[R]; \
    [[unroll]] for (uint m = 0u; m < B; ++m) { \
        vec2 a[A]; \
        [[unroll]] for (uint i = 0u; i < A; ++i) a[i] = u[(B * i + A * m) % R]; \
        bf(a); \
        [[unroll]] for (uint i = 0u; i < A; ++i) y[A * m + i] = a[i]; \
    } \
    [[unroll]] for (uint i = 0u; i < A; ++i) { \
        vec2 b[B]; \
        [[unroll]] for (uint m = 0u; m < B; ++m) b[m] = y[A * m + i]; \
        bf(b); \
        [[unroll]] for (uint m = 0u; m < B; ++m) u[(KA * i + KB * m) % R] = b[m]; \
    } \
}
COPRIME(6u, 2u, 3u, 3u, 4u)
COPRIME(10u, 2u, 5u, 5u, 6u)
COPRIME(12u, 4u, 3u, 9u, 4u)
COPRIME(14u, 2u, 7u, 7u, 8u)
COPRIME(15u, 3u, 5u, 10u, 6u)

void bf(inout vec2 u[9]) {
    const vec2 w1 = vec2(0.76604444311897803520, -0.64278760968653932632);
    const vec2 w2 = vec2(0.17364817766693034885, -0.98480775301220805937);
    const vec2 w4 = vec2(-0.93969262078590838405, -0.34202014332566873304);
    vec2 y[9];
    [[unroll]] for (uint m = 0u; m < 3u; ++m) {
        vec2 a[3] = vec2[](u[m], u[m + 3u], u[m + 6u]);
        bf(a);
        [[unroll]] for (uint i = 0u; i < 3u; ++i) y[3u * m + i] = a[i];
    }
    y[4] = cmul(y[4], w1);
    y[5] = cmul(y[5], w2);
    y[7] = cmul(y[7], w2);
    y[8] = cmul(y[8], w4);
    [[unroll]] for (uint i = 0u; i < 3u; ++i) {
        vec2 b[3] = vec2[](y[i], y[i + 3u], y[i + 6u]);
        bf(b);
        [[unroll]] for (uint m = 0u; m < 3u; ++m) u[i + 3u * m] = b[m];
    }
}
