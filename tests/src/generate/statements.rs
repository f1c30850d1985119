//! Statements: what a function does with its buffers, in blocks within blocks.

use std::fmt::Write;

use super::functions::{Buffer, Form, ProgramDraft, Scope};
use super::kernels::{OVER_ONE, OVER_TWO};

/// Blocks and calls within one another at most.
const DEEPEST: usize = 4;

impl ProgramDraft {
    /// A block of statements, without its braces. What it allocates by hand it frees at its end.
    pub fn block(&mut self, outer: &mut Scope, statements: usize) -> String {
        let mut scope = outer.clone();
        scope.depth += 1;
        let (mut text, mut end) = (String::new(), String::new());
        if scope.buffers.len() < 2 {
            self.buffer(&mut scope, &mut text, &mut end);
            self.buffer(&mut scope, &mut text, &mut end);
        }
        for _ in 0..statements {
            self.statement(&mut scope, &mut text, &mut end);
        }
        let last = self.draw.of(&scope.buffers).words.clone();
        let _ = writeln!(text, "sum.add_device({last}, n);");
        text + &end
    }

    fn statement(&mut self, scope: &mut Scope, text: &mut String, end: &mut String) {
        let nested = scope.depth < DEEPEST;
        match self.draw.below(if nested { 22 } else { 12 }) {
            0 => self.buffer(scope, text, end),
            1..=4 => self.launch(scope, text),
            5..=6 => self.copy(scope, text),
            7 => {
                let words = self.draw.of(&scope.buffers).words.clone();
                let _ = writeln!(text, "sum.add_device({words}, n);");
            }
            8 => self.swap(scope, text),
            9 => self.early_end(scope, text),
            10 => self.structure(text),
            11 => self.integers(scope, text),
            12 => self.branch(scope, text),
            13..=14 => self.counted_loop(scope, text),
            15 => self.attempt(scope, text),
            16 => self.in_stream(scope, text),
            17 => self.list(scope, text),
            18 => self.recursive(scope, text),
            19 => self.lambda(scope, text),
            _ => self.called(scope, text),
        }
    }

    /// A structure of the host, and a copy of it with memory of the device behind its pointers.
    fn structure(&mut self, text: &mut String) {
        let (host, copy) = (self.name("h"), self.name("p"));
        let (a, b) = (self.draw.below(300), self.draw.below(300));
        let second = match self.draw.one_in(3) {
            true => format!(
                "if (sum.value % 5 == 0)\n  CHECK(cudaMemset({copy}.second, {a} % 200, n * sizeof(unsigned)));\n"
            ),
            false => String::new(),
        };
        let _ = writeln!(
            text,
            "{{\nstd::vector<unsigned> one(n, {a}u), two(n, {b}u);\nPair {host} = {{one.data(), two.data(), n}};\nPair {copy} = {host};\n\
             CHECK(cudaMalloc(&{copy}.first, {copy}.count * sizeof(unsigned)));\n\
             CHECK(cudaMalloc(&{copy}.second, {copy}.count * sizeof(unsigned)));\n\
             CHECK(cudaMemcpy({copy}.first, {host}.first, n * sizeof(unsigned), cudaMemcpyHostToDevice));\n\
             CHECK(cudaMemcpy({copy}.second, {host}.second, n * sizeof(unsigned), cudaMemcpyHostToDevice));\n{second}\
             LAUNCH(paired, 3, 64, 0, {copy});\nsum.add_device({copy}.first, {copy}.count);\n\
             CHECK(cudaFree({copy}.second));\nCHECK(cudaFree({copy}.first));\n}}"
        );
    }

    /// What is computed from addresses without a way back to them.
    fn integers(&mut self, scope: &Scope, text: &mut String) {
        let (one, other) = self.two(scope);
        let _ = writeln!(
            text,
            "sum.value += unsigned(uintptr_t({one}) % 16 == 0) + 2 * unsigned({one} == {other});\n\
             sum.value += unsigned({one} + n / 2 - {one});"
        );
    }

    /// A new buffer with values in all its words.
    fn buffer(&mut self, scope: &mut Scope, text: &mut String, end: &mut String) {
        let name = self.name("b");
        let form = *self.draw.of(&[
            Form::Pointer,
            Form::Pointer,
            Form::Class,
            Form::Unique,
            Form::View,
        ]);
        let made = self.draw.one_in(3);
        if made {
            let maker = self.maker(form);
            let _ = match form {
                Form::Pointer => writeln!(text, "unsigned *{name} = nullptr;\n{maker}({name}, n);"),
                Form::Class | Form::Unique => writeln!(text, "auto {name} = {maker}(n);"),
                Form::View => writeln!(
                    text,
                    "View {name};\nif ({maker}(&{name}, n) != 0)\n  throw std::runtime_error(\"view\");"
                ),
            };
        } else {
            let bytes = "n * sizeof(unsigned)";
            let _ = match form {
                Form::Pointer => writeln!(text, "unsigned *{name};\nCHECK(cudaMalloc(&{name}, {bytes}));"),
                Form::Class => writeln!(text, "Buffer {name}(n);"),
                Form::Unique => writeln!(
                    text,
                    "Owned {name}([&] {{\n  unsigned *words;\n  TRY(cudaMalloc(&words, {bytes}));\n  return words;\n}}());"
                ),
                Form::View => writeln!(
                    text,
                    "View {name} = {{nullptr, n}};\nCHECK(cudaMalloc(&{name}.words, {bytes}));"
                ),
            };
        }
        let words = match form {
            Form::Pointer => name.clone(),
            Form::Class | Form::Unique => format!("{name}.get()"),
            Form::View => format!("{name}.words"),
        };
        if !made {
            let value = self.draw.below(250);
            let _ = if self.draw.one_in(2) {
                writeln!(text, "CHECK(cudaMemset({words}, {value}, n * sizeof(unsigned)));")
            } else {
                writeln!(
                    text,
                    "{{\n  std::vector<unsigned> host(n);\n  for (size_t i = 0; i < n; i++)\n    host[i] = unsigned(i * {value} + 7);\n  \
                     CHECK(cudaMemcpy({words}, host.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));\n}}"
                )
            };
        }
        if matches!(form, Form::Pointer | Form::View) {
            end.insert_str(0, &format!("CHECK(cudaFree({words}));\n"));
        }
        scope.buffers.push(Buffer {
            words,
            variable: Some((form, name)),
        });
    }

    /// Two different buffers.
    fn two(&mut self, scope: &Scope) -> (String, String) {
        let one = self.draw.below(scope.buffers.len());
        let other = (one + 1 + self.draw.below(scope.buffers.len() - 1)) % scope.buffers.len();
        (
            scope.buffers[one].words.clone(),
            scope.buffers[other].words.clone(),
        )
    }

    fn launch(&mut self, scope: &Scope, text: &mut String) {
        let (to, from) = self.two(scope);
        let stream = scope.stream.as_deref().unwrap_or("0");
        let shape = *self.draw.of(&[
            "1, 32",
            "3, 64",
            "unsigned(n + 127) / 128, 128",
            "dim3(2), dim3(256)",
        ]);
        let k = self.draw.below(1000);
        let _ = match self.draw.below(8) {
            0..=1 => writeln!(
                text,
                "LAUNCH(one{}, {shape}, {stream}, {to}, n, {k}u);",
                k % OVER_ONE
            ),
            2..=3 => writeln!(
                text,
                "LAUNCH(two{}, {shape}, {stream}, {to}, {from}, n);",
                k % OVER_TWO
            ),
            4 => writeln!(
                text,
                "LAUNCH((shaped<unsigned, {k}>), {shape}, {stream}, {to}, n);"
            ),
            5 => writeln!(text, "LAUNCH(argued, {shape}, {stream}, Argument({to}, n));"),
            6 => writeln!(
                text,
                "LAUNCH(viewed, {shape}, {stream}, View{{{to}, n}}, View{{{from}, n}});"
            ),
            _ => {
                // The variable belongs to no stream: everybody is done with it.
                writeln!(
                    text,
                    "{{\n  unsigned value = sum.value % 9 + {k}u;\n  CHECK(cudaDeviceSynchronize());\n  \
                     CHECK(cudaMemcpyToSymbol(factor, &value, sizeof value));\n  CHECK(cudaDeviceSynchronize());\n}}\n\
                     LAUNCH(scaled, {shape}, {stream}, {to}, n);"
                )
            }
        };
    }

    fn copy(&mut self, scope: &Scope, text: &mut String) {
        let (to, from) = self.two(scope);
        let stream = scope.stream.as_deref().unwrap_or("0");
        let part = *self.draw.of(&["n", "n / 2", "n - 3"]);
        let bytes = format!("({part}) * sizeof(unsigned)");
        let kind = *self.draw.of(&["cudaMemcpyDeviceToDevice", "cudaMemcpyDefault"]);
        let _ = match self.draw.below(4) {
            0 => writeln!(
                text,
                "CHECK(cudaMemcpyAsync({to}, {from}, {bytes}, {kind}, {stream}));"
            ),
            1 => writeln!(
                text,
                "CHECK(cudaMemcpyAsync({to} + n / 3, {from}, n / 2 * sizeof(unsigned), {kind}, {stream}));"
            ),
            2 => writeln!(
                text,
                "CHECK(cudaMemsetAsync({to}, int(n % 100), {bytes}, {stream}));"
            ),
            _ => writeln!(
                text,
                "{{\n  std::vector<unsigned> host({part}, sum.value);\n  CHECK(cudaMemcpyAsync({to}, host.data(), {bytes}, \
                 cudaMemcpyHostToDevice, {stream}));\n  CHECK(cudaStreamSynchronize({stream}));\n}}"
            ),
        };
    }

    /// Two variables of one form exchange what they hold.
    fn swap(&mut self, scope: &Scope, text: &mut String) {
        let held: Vec<_> = scope
            .buffers
            .iter()
            .filter_map(|buffer| buffer.variable.clone())
            .collect();
        let Some((form, one)) = held.first().cloned() else {
            return self.launch(scope, text);
        };
        if let Some((_, other)) = held.iter().skip(1).find(|(other, _)| *other == form) {
            let _ = writeln!(text, "std::swap({one}, {other});");
        }
    }

    fn early_end(&mut self, scope: &Scope, text: &mut String) {
        let (of, at) = (3 + self.draw.below(6), self.draw.below(3));
        let condition = format!("if (sum.value % {of} == {at})");
        let _ = match self.draw.below(2) {
            0 if scope.returns => writeln!(text, "{condition}\n  return;"),
            _ if scope.depth > 2 => writeln!(text, "{condition}\n  throw std::runtime_error(\"{of}\");"),
            _ => Ok(()),
        };
    }

    /// A block of its own, as a part of `scope`'s function.
    fn inner(&mut self, scope: &mut Scope, most: usize) -> String {
        let statements = 1 + self.draw.below(most);
        self.block(scope, statements)
    }

    fn branch(&mut self, scope: &mut Scope, text: &mut String) {
        let then = self.inner(scope, 3);
        let of = 2 + self.draw.below(3);
        if self.draw.one_in(3) {
            let other = self.inner(scope, 2);
            let third = self.inner(scope, 2);
            let _ = writeln!(
                text,
                "switch (sum.value % 3) {{\ncase 0: {{\n{then}break;\n}}\ncase 1: {{\n{other}break;\n}}\ndefault: {{\n{third}}}\n}}"
            );
        } else if self.draw.one_in(2) {
            let other = self.inner(scope, 3);
            let _ = writeln!(text, "if (sum.value % {of} == 0) {{\n{then}}} else {{\n{other}}}");
        } else {
            let _ = writeln!(text, "if (sum.value % {of} != 0) {{\n{then}}}");
        }
    }

    fn counted_loop(&mut self, scope: &mut Scope, text: &mut String) {
        let body = self.inner(scope, 3);
        let name = self.name("i");
        let times = 2 + self.draw.below(4);
        let mut step = String::new();
        self.swap(scope, &mut step);
        let leave = match self.draw.below(4) {
            0 => format!("if (sum.value % 7 == {times})\n  break;\n"),
            1 => format!("if (sum.value % 5 == {times} % 5)\n  continue;\n"),
            _ => String::new(),
        };
        let _ = match self.draw.below(3) {
            0 => writeln!(
                text,
                "for (int {name} = 0; {name} < {times}; {name}++) {{\n{leave}{body}{step}}}"
            ),
            1 => writeln!(
                text,
                "for (int {name} = {times}; {name} > 0; {name}--) {{\n{leave}{step}{body}}}"
            ),
            _ => writeln!(
                text,
                "int {name} = 0;\nwhile ({name}++ < {times} && sum.value % 31 != 0) {{\n{leave}{body}{step}}}"
            ),
        };
    }

    fn attempt(&mut self, scope: &mut Scope, text: &mut String) {
        let body = self.inner(scope, 3);
        let of = 2 + self.draw.below(4);
        let rest = self.inner(scope, 1);
        let _ = writeln!(
            text,
            "try {{\n{body}if (sum.value % {of} == 1)\n  throw std::runtime_error(\"thrown\");\n{rest}}} \
             catch (const std::runtime_error &) {{\n  sum.value += {of}u;\n}}"
        );
    }

    /// Work in a stream, which begins and ends with what other streams do.
    fn in_stream(&mut self, scope: &mut Scope, text: &mut String) {
        if scope.stream.is_some() {
            return self.launch(scope, text);
        }
        let name = self.name("s");
        let (mut inner, mut work) = (scope.clone(), String::new());
        inner.stream = Some(name.clone());
        for _ in 0..1 + self.draw.below(4) {
            match self.draw.below(3) {
                0 => self.copy(&inner, &mut work),
                _ => self.launch(&inner, &mut work),
            }
        }
        if self.draw.one_in(2) && self.calls > 0 {
            let (one, other) = (scope.buffers[0].clone(), scope.buffers[1].clone());
            // In the stream: the function's own reads wait for it, its sets of new memory come before.
            let call = self.call(&[one, other], Some(&name), scope.depth.max(DEEPEST - 1));
            work += &call;
        }
        let wait = if self.draw.one_in(2) {
            format!("CHECK(cudaStreamSynchronize({name}));")
        } else {
            format!(
                "cudaEvent_t done;\nCHECK(cudaEventCreate(&done));\nCHECK(cudaEventRecord(done, {name}));\n\
                 CHECK(cudaEventSynchronize(done));\nCHECK(cudaEventDestroy(done));"
            )
        };
        let _ = writeln!(
            text,
            "{{\ncudaStream_t {name};\nCHECK(cudaStreamCreate(&{name}));\n{work}{wait}\nCHECK(cudaStreamDestroy({name}));\n}}"
        );
    }

    /// Pointers in a vector on the host and in memory of the device.
    fn list(&mut self, scope: &Scope, text: &mut String) {
        let name = self.name("list");
        let all: Vec<String> = scope.buffers.iter().map(|buffer| buffer.words.clone()).collect();
        let which = self.draw.below(all.len());
        let all = all.join(", ");
        let _ = writeln!(
            text,
            "{{\nstd::vector<unsigned *> {name} = {{{all}}};\nunsigned **there;\n\
             CHECK(cudaMalloc(&there, {name}.size() * sizeof(unsigned *)));\n\
             CHECK(cudaMemcpy(there, {name}.data(), {name}.size() * sizeof(unsigned *), cudaMemcpyHostToDevice));\n\
             LAUNCH(listed, 2, 64, 0, there, {which}, n);\nfor (unsigned *words : {name})\n  LAUNCH(one0, 2, 32, 0, words, n, {which}u);\n\
             CHECK(cudaFree(there));\n}}"
        );
    }

    fn recursive(&mut self, scope: &Scope, text: &mut String) {
        if self.calls == 0 {
            return self.launch(scope, text);
        }
        self.calls -= 1;
        let name = self.recursion();
        let words = self.draw.of(&scope.buffers).words.clone();
        let depth = 1 + self.draw.below(4);
        let _ = writeln!(text, "{name}(sum, n, {depth}, {words});");
    }

    fn lambda(&mut self, scope: &mut Scope, text: &mut String) {
        let name = self.name("again");
        let mut inner = scope.clone();
        inner.returns = true;
        let body = self.inner(&mut inner, 2);
        let _ = writeln!(text, "auto {name} = [&] {{\n{body}}};\n{name}();\n{name}();");
    }

    fn called(&mut self, scope: &mut Scope, text: &mut String) {
        if self.calls == 0 {
            return self.launch(scope, text);
        }
        let (one, other) = self.two(scope);
        let arguments = [one, other].map(|words| Buffer {
            words,
            variable: None,
        });
        let call = self.call(&arguments, None, scope.depth);
        text.push_str(&call);
    }
}
