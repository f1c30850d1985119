//! A program on its way: its kernels, its functions, and those of its second source.

use super::super::draw::Draw;
use super::features::{Feature, Features};
use super::text::put;

/// A live object of device memory.
#[derive(Clone, Debug)]
pub struct LiveObject {
    /// The expression of its address.
    pub words: String,
    /// The variable of what it must hold.
    pub model: String,
}

/// Where statements stand.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Live objects of `n` words, innermost last.
    pub objects: Vec<LiveObject>,
    /// How deep in blocks and calls.
    pub depth: usize,
    /// Whether the function is a coroutine that may be suspended between statements.
    pub awaits: bool,
    /// Whether several threads or coroutines may be in this function at once, so that its variables of the
    /// program are not its own.
    pub several: bool,
}

/// A program that is generated.
pub struct AttackProgram {
    pub draw: Draw,
    pub features: Features,
    /// Device variables and kernels.
    pub kernels: String,
    /// Functions of the host, callees first.
    pub functions: String,
    /// What the second source has of this program, and how the first declares it.
    pub other: String,
    pub declared: String,
    /// Functions that may still be made.
    pub calls: usize,
    names: usize,
}

/// Words of the program's objects.
const COUNTS: [usize; 12] = [
    100, 100, 777, 777, 5000, 5000, 20_001, 20_001, 70_000, 70_000, 300_000, 600_000,
];

impl AttackProgram {
    /// A program of these numbers, with up to three of these features.
    pub fn new(mut draw: Draw, features: &Features) -> AttackProgram {
        let mut chosen = Vec::new();
        let all = features.list();
        for _ in 0..3 {
            if !all.is_empty() {
                chosen.push(*draw.of(all));
            }
        }
        AttackProgram {
            draw,
            features: features.only(|feature| chosen.contains(&feature)),
            kernels: String::new(),
            functions: String::new(),
            other: String::new(),
            declared: String::new(),
            calls: 4,
            names: 0,
        }
    }

    /// Its text, and that of its second source, which is empty where it needs none.
    pub fn texts(mut self) -> (String, String) {
        let words = *self.draw.of(&COUNTS);
        let mut scope = Scope::default();
        let body = self.whole(&mut scope);
        let text = put(
            "@declared@@kernels@\n@functions@static void body(Answer &answer, size_t n) {\n@body@}\n\n\
             static unsigned run() {\n  Answer answer;\n  body(answer, @words@);\n  CHECK(cudaDeviceSynchronize());\n  \
             return answer.value;\n}\n",
            &[
                ("declared", &self.declared),
                ("kernels", &self.kernels),
                ("functions", &self.functions),
                ("body", &body),
                ("words", &words),
            ],
        );
        (text, self.other)
    }

    /// A name that nothing else of the program has.
    pub fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// Whether the program has a feature.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.has(feature)
    }

    /// What stands between two operations: a pause, and perhaps an exception.
    pub fn step(&self) -> &'static str {
        match self.has(Feature::Throw) {
            true => "answer.step();\n",
            false => "idle();\n",
        }
    }

    /// The beginning of a function: inlined by the pass or not.
    pub fn linkage(&mut self) -> &'static str {
        self.draw.of::<&'static str>(&[
            "static",
            "NEVER_INLINE static",
            "NEVER_INLINE static",
            "[[clang::optnone, gnu::noinline]] static",
        ])
    }

    /// How a function is called: by its name, or through a pointer that the compiler cannot follow. The
    /// pointer is defined after the function.
    pub fn reached(&mut self, name: &str) -> String {
        if self.draw.one_in(3) {
            let pointer = self.name("at");
            self.functions
                .push_str(&format!("static auto *volatile {pointer} = {name};\n\n"));
            return pointer;
        }
        name.to_owned()
    }

    /// A shape of a launch over any number of words.
    pub fn shape(&mut self) -> &'static str {
        self.draw.of::<&'static str>(&[
            "1, 32",
            "3, 64",
            "unsigned(n + 127) / 128, 128",
            "dim3(2), dim3(256)",
        ])
    }

    /// Draws a constant of the program.
    pub fn constant(&mut self) -> usize {
        3 + self.draw.below(5000)
    }
}
