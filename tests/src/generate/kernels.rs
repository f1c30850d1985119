//! The kernels of a program: what they do to words, with constants of their own.

use std::fmt::Write;

use super::draw::Draw;

/// How many kernels there are of each form.
pub const OVER_ONE: usize = 3;
pub const OVER_TWO: usize = 2;

/// All kernels of a program.
pub fn text(draw: &mut Draw) -> String {
    let mut text = String::new();
    let constant = |draw: &mut Draw| 3 + 2 * draw.below(5000);
    text.push_str("__device__ unsigned factor = 1;\n");
    for at in 0..OVER_ONE {
        let (a, b) = (constant(draw), constant(draw));
        let body = match draw.below(3) {
            0 => format!("w[i] = w[i] * {a}u + k * unsigned(i) + {b}u"),
            1 => format!("w[i] = (w[i] ^ {a}u) + (unsigned(i) >> 3) * k"),
            _ => format!("for (unsigned r = 0; r < 3; r++) w[i] = (w[i] + r) * {a}u ^ k"),
        };
        let _ = writeln!(
            text,
            "__global__ void one{at}(unsigned *w, size_t n, unsigned k) {{ EACH(i, n) {{ {body}; }} }}"
        );
    }
    for at in 0..OVER_TWO {
        let (a, b) = (constant(draw), draw.below(90));
        let _ = writeln!(
            text,
            "__global__ void two{at}(unsigned *to, const unsigned *from, size_t n) \
             {{ EACH(i, n) to[i] = to[i] * {a}u + from[(i + {b}) % n]; }}"
        );
    }
    let a = constant(draw);
    let _ = write!(
        text,
        "template <class T, int K> __global__ void shaped(T *w, size_t n) {{ EACH(i, n) w[i] += T(i * K) ^ {a}u; }}\n\
         __global__ void viewed(View to, View from) {{ EACH(i, to.count) to.words[i] ^= from.words[i] + {a}u; }}\n\
         __global__ void paired(Pair pair) {{ EACH(i, pair.count) pair.first[i] += pair.second[i] * 3 + {a}u; }}\n\
         __global__ void argued(Argument to) {{ EACH(i, to.count) to.words[i] = to.words[i] * 7 + {a}u; }}\n\
         __global__ void listed(unsigned **list, size_t which, size_t n) \
         {{ EACH(i, n) list[which][i] = list[which][i] * 5 + unsigned(which); }}\n\
         __global__ void scaled(unsigned *w, size_t n) {{ EACH(i, n) w[i] = w[i] * factor + 1; }}\n"
    );
    text
}
