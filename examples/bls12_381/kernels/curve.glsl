// Points of y^2 = x^3 + 4 in Jacobian coordinates: (X, Y, Z) stands for (X / Z^2, Y / Z^3), Z = 0 for infinity, which
// is written (1, 1, 0). Comes after field.glsl. Formulas: hyperelliptic.org/EFD, short Weierstrass curves with a = 0.

struct Point { Fp x, y, z; };

Point point_infinity() { return Point(fp_one(), fp_one(), fp_zero()); }

Point point_choose(bool first, Point a, Point b) {
    return Point(fp_choose(first, a.x, b.x), fp_choose(first, a.y, b.y), fp_choose(first, a.z, b.z));
}

// 2 a: dbl-2009-l.
Point point_double(Point a) {
    Fp xx = fp_square(a.x), yy = fp_square(a.y), yyyy = fp_square(yy);
    Fp d = fp_twice(fp_sub(fp_sub(fp_square(fp_add(a.x, yy)), xx), yyyy));
    Fp e = fp_add(fp_twice(xx), xx);
    Fp x = fp_sub(fp_square(e), fp_twice(d));
    Fp y = fp_sub(fp_mul(e, fp_sub(d, x)), fp_twice(fp_twice(fp_twice(yyyy))));
    Fp z = fp_twice(fp_mul(a.y, a.z));
    return point_choose(fp_is_zero(z), point_infinity(), Point(x, y, z));
}

// a + b for any two points: add-2007-bl where they differ.
Point point_add(Point a, Point b) {
    Fp aa = fp_square(a.z), bb = fp_square(b.z);
    Fp u = fp_mul(a.x, bb), s = fp_mul(fp_mul(a.y, b.z), bb);
    Fp h = fp_sub(fp_mul(b.x, aa), u), r = fp_twice(fp_sub(fp_mul(fp_mul(b.y, a.z), aa), s));
    bool first = fp_is_zero(a.z), second = fp_is_zero(b.z), vertical = fp_is_zero(h);
    if (!first && !second && vertical && fp_is_zero(r)) return point_double(a);
    Fp i = fp_square(fp_twice(h)), j = fp_mul(h, i), v = fp_mul(u, i);
    Fp x = fp_sub(fp_sub(fp_square(r), j), fp_twice(v));
    Fp y = fp_sub(fp_mul(r, fp_sub(v, x)), fp_twice(fp_mul(s, j)));
    Fp z = fp_mul(fp_sub(fp_sub(fp_square(fp_add(a.z, b.z)), aa), bb), h);
    Point sum = point_choose(vertical, point_infinity(), Point(x, y, z));
    return point_choose(first, b, point_choose(second, a, sum));
}

#define LOAD_POINT(from, i) Point(LOAD(from, 3 * (i)), LOAD(from, 3 * (i) + 1), LOAD(from, 3 * (i) + 2))
#define STORE_POINT(to, i, p) \
    { Point p_ = p; STORE(to, 3 * (i), p_.x) STORE(to, 3 * (i) + 1, p_.y) STORE(to, 3 * (i) + 2, p_.z) }
