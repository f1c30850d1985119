//! Coroutines of one thread and of several, whose turns are drawn.

use super::program::{AttackProgram, Scope};
use super::text::put;

/// How a coroutine is resumed.
const RESUMES: [&str; 3] = [
    "all[i].handle.resume();\n",
    "in_thread([&] { all[i].handle.resume(); });\n",
    "if ((round + i) % 2 == 0)\n  all[i].handle.resume();\nelse\n  in_thread([&] { all[i].handle.resume(); });\n",
];

impl AttackProgram {
    /// Three coroutines, two of them of one function, that are resumed in turns.
    pub fn coroutines(&mut self, _scope: &mut Scope) -> String {
        self.calls = self.calls.saturating_sub(1);
        let names = [self.coroutine(), self.coroutine()];
        let resume = *self.draw.of(&RESUMES);
        let (left_out, of) = (self.draw.below(3), 3 + self.draw.below(2));
        let order = *self.draw.of(&["int i = 0; i < 3; i++", "int i = 2; i >= 0; i--"]);
        let step = self.step();
        put(
            "{\nAnswer answers[3];\nRoutine all[3] = {@one@(answers[0], n), @other@(answers[1], n), @one@(answers[2], n)};\nbool any = true;\n\
             for (int round = 0; any; round++) {\n  any = false;\n  for (@order@) {\n    if (all[i].handle.done())\n      continue;\n    \
             any = true;\n    if ((round + i) % @of@ == @left_out@)\n      continue;\n    @resume@  }\n}\n\
             for (int i = 0; i < 3; i++) {\n  all[i].handle.destroy();\n  answer.add(answers[i].value);\n}\n@step@}\n",
            &[
                ("one", &names[0]),
                ("other", &names[1]),
                ("order", &order),
                ("of", &of),
                ("left_out", &left_out),
                ("resume", &resume),
                ("step", &step),
            ],
        )
    }

    /// A coroutine with objects of its own, suspended between any two statements; its name.
    fn coroutine(&mut self) -> String {
        let name = self.name("routine");
        let scope = Scope {
            objects: Vec::new(),
            depth: 1,
            awaits: true,
            several: true,
        };
        let statements = 3 + self.draw.below(3);
        let body = self.block(&scope, statements);
        self.functions += &put(
            "static Routine @name@(Answer &answer, size_t n) {\n@body@co_return;\n}\n\n",
            &[("name", &name), ("body", &body)],
        );
        name
    }
}
