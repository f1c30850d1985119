//! Ways in which a kernel keeps an address and another one finds it again.

use super::program::AttackProgram;
use super::text::put;

/// Kernels that keep the address of one object: `keep` is launched with the address, `stirs`, `blends` follow
/// it without.
#[derive(Clone, Debug)]
pub struct Hiding {
    /// Name of the kernel that keeps an address.
    pub keep: String,
    /// Name of the kernel that stirs what is behind the address.
    pub stirs: String,
    /// Name of the kernel that blends what is behind the address into its own object.
    pub blends: String,
    /// Name of the kernel that answers the address in an object.
    pub tells: String,
    /// The device variable, where it holds the plain address.
    pub variable: Option<String>,
    /// Whether the kernels take a table of the device as their first argument.
    pub table: bool,
}

/// A way: what stands before the kernels, how the address is kept, and how it is found. `w` is the address;
/// with a table `table` has eight words of 64 bits.
struct HidingWay {
    before: &'static str,
    keep: &'static str,
    find: &'static str,
    table: bool,
    plain: bool,
}

const fn variable(before: &'static str, keep: &'static str, find: &'static str) -> HidingWay {
    HidingWay {
        before,
        keep,
        find,
        table: false,
        plain: false,
    }
}

const fn table(before: &'static str, keep: &'static str, find: &'static str) -> HidingWay {
    HidingWay {
        before,
        keep,
        find,
        table: true,
        plain: false,
    }
}

const PLAIN: &str = "__device__ unsigned *@v@;\n";
const BITS: &str = "__device__ unsigned long long @v@;\n";

const WAYS: [HidingWay; 22] = [
    HidingWay {
        plain: true,
        ..variable(PLAIN, "@v@ = w;", "@v@")
    },
    // By atomics.
    HidingWay {
        plain: true,
        ..variable(
            PLAIN,
            "atomicExch((unsigned long long *)&@v@, (unsigned long long)w);",
            "@v@",
        )
    },
    variable(
        BITS,
        "atomicCAS(&@v@, @v@, (unsigned long long)w);",
        "(unsigned *)@v@",
    ),
    variable(
        BITS,
        "@v@ = 0; atomicAdd(&@v@, (unsigned long long)w - 1);",
        "(unsigned *)(@v@ + 1)",
    ),
    variable(
        BITS,
        "@v@ = 0; atomicMax(&@v@, (unsigned long long)w);",
        "(unsigned *)@v@",
    ),
    // Through functions that are not inlined.
    HidingWay {
        plain: true,
        ..variable(
            "__device__ unsigned *@v@;\n__device__ __noinline__ void put@v@(unsigned **to, unsigned *w) { *to = w; }\n",
            "put@v@(&@v@, w);",
            "@v@",
        )
    },
    variable(
        "__device__ unsigned *@v@;\n__device__ __noinline__ unsigned *same@v@(unsigned *w) { return w + 1; }\n",
        "@v@ = same@v@(w);",
        "@v@ - 1",
    ),
    variable(
        "struct S@v@ { unsigned *first; size_t pad; unsigned *second; };\n__device__ S@v@ @v@[3];\n\
         __device__ __noinline__ void put@v@(const S@v@ &from, int at) { @v@[at] = from; }\n",
        "S@v@ s = {nullptr, 1, w}; put@v@(s, 2);",
        "@v@[2].second",
    ),
    // In structures and arrays, at places that are computed.
    variable(
        "__device__ View @v@;\n",
        "View view = {w, 1}; @v@ = view;",
        "@v@.words",
    ),
    variable(
        "__device__ unsigned *@v@[4];\n",
        "@v@[(threadIdx.x + 6) % 4] = w;",
        "@v@[2]",
    ),
    variable(
        "struct N@v@ { unsigned *words; N@v@ *next; };\n__device__ N@v@ nodes@v@[3];\n__device__ N@v@ *@v@;\n",
        "@v@ = nullptr; for (int i = 0; i < 3; i++) { nodes@v@[i] = {w + i, @v@}; @v@ = &nodes@v@[i]; }",
        "@v@->next->next->words",
    ),
    // As bits of something else.
    variable(
        BITS,
        "@v@ = (unsigned long long)w ^ 0x5555aaaa5555aaaaull;",
        "(unsigned *)(@v@ ^ 0x5555aaaa5555aaaaull)",
    ),
    variable(
        "__device__ unsigned @v@[2];\n",
        "@v@[0] = unsigned((unsigned long long)w); @v@[1] = unsigned((unsigned long long)w >> 32);",
        "(unsigned *)(@v@[0] | (unsigned long long)@v@[1] << 32)",
    ),
    variable(
        "__device__ double @v@;\n",
        "@v@ = __longlong_as_double((long long)w);",
        "(unsigned *)__double_as_longlong(@v@)",
    ),
    variable(
        "__device__ unsigned char @v@[8];\n",
        "for (int i = 0; i < 8; i++) @v@[i] = (unsigned char)((unsigned long long)w >> 8 * i);",
        "[] { unsigned long long all = 0; for (int i = 0; i < 8; i++) all |= (unsigned long long)@v@[i] << 8 * i; \
         return (unsigned *)all; }()",
    ),
    variable(
        "__device__ ulonglong2 @v@;\n",
        "@v@ = make_ulonglong2(7, (unsigned long long)w);",
        "(unsigned *)@v@.y",
    ),
    variable(
        "__device__ unsigned *@v@;\n",
        "memcpy(&@v@, &w, sizeof w);",
        "@v@",
    ),
    // By way of shared memory.
    variable(
        PLAIN,
        "__shared__ unsigned *staged; staged = w; __syncthreads(); @v@ = staged;",
        "@v@",
    ),
    // In another object.
    table("", "table[3] = (unsigned long long)w;", "(unsigned *)table[3]"),
    table(
        "",
        "((unsigned **)table)[1] = w + 2;",
        "((unsigned **)table)[1] - 2",
    ),
    table(
        "",
        "atomicExch(&table[5], (unsigned long long)w);",
        "(unsigned *)table[5]",
    ),
    table(
        "__device__ __noinline__ void into@v@(unsigned long long *table, View view) { ((View *)table)[1] = view; }\n",
        "into@v@(table, View{w, 5});",
        "((View *)table)[1].words",
    ),
];

impl AttackProgram {
    /// Kernels of a way that is drawn; with `plain` one whose device variable is the address.
    pub fn hiding(&mut self, plain: bool) -> Hiding {
        let ways: Vec<&HidingWay> = WAYS.iter().filter(|way| !plain || way.plain).collect();
        let way = *self.draw.of(&ways);
        let v = self.name("held");
        let hiding = Hiding {
            keep: format!("keep_{v}"),
            stirs: format!("stirs_{v}"),
            blends: format!("blends_{v}"),
            tells: format!("tells_{v}"),
            variable: way.plain.then(|| v.clone()),
            table: way.table,
        };
        let first = if way.table {
            "unsigned long long *table, "
        } else {
            ""
        };
        let values = |template: &str| put(template, &[("v", &v)]);
        let (before, keep, find) = (values(way.before), values(way.keep), values(way.find));
        self.kernels += &put(
            "@before@__global__ void keep_@v@(@first@unsigned *w) { @keep@ }\n\
             __global__ void stirs_@v@(@first@size_t n, unsigned k) { unsigned *w = @find@; EACH(i, n) w[i] = w[i] * 2654435761u + k; }\n\
             __global__ void blends_@v@(@first@unsigned *to, size_t n) { unsigned *w = @find@; EACH(i, n) to[i] = to[i] * 5 + w[i]; }\n\
             __global__ void tells_@v@(@first@unsigned long long *to) { *to = (unsigned long long)(@find@); }\n",
            &[
                ("before", &before),
                ("v", &v),
                ("first", &first),
                ("keep", &keep),
                ("find", &find),
            ],
        );
        hiding
    }
}
