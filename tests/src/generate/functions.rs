//! A program: kernels, functions that call one another, and `run`, which begins it.

use std::fmt::Write;

use super::draw::Draw;
use super::kernels;

/// A buffer that statements can use.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// The expression of its words.
    pub words: String,
    /// The variable that may be swapped with another of the same form, if it is one.
    pub variable: Option<(Form, String)>,
}

/// What holds a buffer's pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A pointer, freed by hand.
    Pointer,
    /// An object with a destructor.
    Class,
    /// `std::unique_ptr` with a deleter.
    Unique,
    /// A structure with a pointer and a length.
    View,
}

/// What a function may do.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Live buffers, innermost last.
    pub buffers: Vec<Buffer>,
    /// The stream of launches, if one was made.
    pub stream: Option<String>,
    /// How deep in blocks and calls.
    pub depth: usize,
    /// Whether `return;` is possible.
    pub returns: bool,
}

/// A program on its way.
pub struct ProgramDraft {
    pub draw: Draw,
    functions: String,
    names: usize,
    /// Functions that may still be made.
    pub calls: usize,
}

impl ProgramDraft {
    /// A program of these numbers.
    pub fn new(draw: Draw) -> ProgramDraft {
        ProgramDraft {
            draw,
            functions: String::new(),
            names: 0,
            calls: 5,
        }
    }

    /// The text of the function.
    pub fn text(mut self) -> String {
        let kernels = kernels::text(&mut self.draw);
        let words = *self.draw.of(&[100, 777, 4096, 5000, 20001, 300_000]);
        let statements = 5 + self.draw.below(5);
        let body = self.block(&mut Scope::default(), statements);
        let functions = &self.functions;
        let catch =
            "  } catch (const std::runtime_error &error) {\n    sum.value += unsigned(error.what()[0]);\n  }";
        format!(
            "{kernels}\n{functions}unsigned run() {{\n  Sum sum;\n  size_t n = {words};\n  try {{\n{body}{catch}\n  \
             CHECK(cudaDeviceSynchronize());\n  return sum.value;\n}}\n"
        )
    }

    /// A name that nothing else has.
    pub fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// Makes a function over as many buffers as are handed to it, and gives the call.
    pub fn call(&mut self, arguments: &[Buffer], stream: Option<&str>, depth: usize) -> String {
        self.calls -= 1;
        let name = self.name("f");
        let view = self.draw.one_in(3);
        let (mut parameters, mut values) = ("Sum &sum, size_t n".to_owned(), "sum, n".to_owned());
        let mut scope = Scope {
            depth: depth + 1,
            returns: true,
            ..Scope::default()
        };
        for (at, argument) in arguments.iter().enumerate() {
            let words = if view && at == 0 {
                let _ = write!(parameters, ", View a{at}");
                let _ = write!(values, ", View{{{}, n}}", argument.words);
                format!("a{at}.words")
            } else {
                let _ = write!(parameters, ", unsigned *a{at}");
                let _ = write!(values, ", {}", argument.words);
                format!("a{at}")
            };
            scope.buffers.push(Buffer {
                words,
                variable: None,
            });
        }
        if let Some(stream) = stream {
            parameters.push_str(", cudaStream_t stream");
            let _ = write!(values, ", {stream}");
            scope.stream = Some("stream".to_owned());
        }
        let statements = 2 + self.draw.below(4);
        let body = self.block(&mut scope, statements);
        let _ = write!(
            self.functions,
            "static void {name}({parameters}) {{\n{body}}}\n\n"
        );
        format!("{name}({values});\n")
    }

    /// A function that allocates for its caller; its name. `recursive`: it does so at each depth, for itself.
    pub fn maker(&mut self, form: Form) -> String {
        let name = self.name("make");
        let value = self.draw.below(200);
        let k = self.draw.below(kernels::OVER_ONE);
        let fill = format!(
            "CHECK(cudaMemset(words, {value}, n * sizeof(unsigned)));\n  LAUNCH(one{k}, 4, 64, 0, words, n, {value}u);"
        );
        let text = match form {
            Form::Unique => format!(
                "static Owned {name}(size_t n) {{\n  unsigned *words = nullptr;\n  TRY(cudaMalloc(&words, n * sizeof(unsigned)));\n  \
                 Owned owned(words);\n  {fill}\n  return owned;\n}}\n\n"
            ),
            Form::Class => format!(
                "static Buffer {name}(size_t n) {{\n  Buffer made(n);\n  unsigned *words = made.get();\n  {fill}\n  return made;\n}}\n\n"
            ),
            Form::View => format!(
                "static int {name}(View *view, size_t n) {{\n  view->count = n;\n  PASS_ON(cudaMalloc(&view->words, n * sizeof(unsigned)));\n  \
                 unsigned *words = view->words;\n  {fill}\n  return 0;\n}}\n\n"
            ),
            Form::Pointer => format!(
                "static void {name}(unsigned *&words, size_t n) {{\n  CHECK(cudaMalloc(&words, n * sizeof(unsigned)));\n  {fill}\n}}\n\n"
            ),
        };
        self.functions.push_str(&text);
        name
    }

    /// A function that calls itself and has memory at each depth; its name.
    pub fn recursion(&mut self) -> String {
        let name = self.name("deep");
        let k = self.draw.below(kernels::OVER_TWO);
        let _ = write!(
            self.functions,
            "static void {name}(Sum &sum, size_t n, int depth, unsigned *above) {{\n  if (depth == 0) {{\n    \
             sum.add_device(above, n);\n    return;\n  }}\n  Buffer own(n);\n  \
             CHECK(cudaMemset(own.get(), depth, n * sizeof(unsigned)));\n  \
             LAUNCH(two{k}, 3, 32, 0, own.get(), above, n);\n  {name}(sum, n, depth - 1, own.get());\n  \
             LAUNCH(two{k}, 3, 32, 0, above, own.get(), n);\n}}\n\n"
        );
        name
    }
}
