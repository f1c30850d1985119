//! Blocks: statements on objects, and on their models beside them.

use super::features::Feature;
use super::program::{AttackProgram, LiveObject, Scope};
use super::text::put;

/// Blocks and calls within one another at most.
const DEEPEST: usize = 3;

type Statement = fn(&mut AttackProgram, &mut Scope) -> String;

/// What a feature adds, and whether it uses variables that belong to the whole program.
const ATTACKS: [(Feature, Statement, bool); 15] = [
    (Feature::Publish, AttackProgram::publish, true),
    (Feature::Forget, AttackProgram::forget, true),
    (Feature::ReadBack, AttackProgram::read_back, true),
    (Feature::Guarded, AttackProgram::guarded, false),
    (Feature::Failing, AttackProgram::failing, false),
    (Feature::Probing, AttackProgram::probing, false),
    (Feature::Growing, AttackProgram::growing, false),
    (Feature::Keeping, AttackProgram::keeping, false),
    (Feature::Recursion, AttackProgram::recursion, false),
    (Feature::Coroutine, AttackProgram::coroutines, false),
    (Feature::Pipeline, AttackProgram::pipeline, true),
    (Feature::Units, AttackProgram::units, true),
    (Feature::Many, AttackProgram::many, false),
    (Feature::Threads, AttackProgram::threads, true),
    (Feature::Owners, AttackProgram::owners, true),
];

impl AttackProgram {
    /// The whole body: each feature at least once.
    pub fn whole(&mut self, scope: &mut Scope) -> String {
        let mut must: Vec<Statement> = ATTACKS
            .iter()
            .filter(|(feature, ..)| self.has(*feature))
            .map(|(_, statement, _)| *statement)
            .collect();
        let more = 2 + self.draw.below(4);
        let at: Vec<usize> = must.iter().map(|_| self.draw.below(more)).collect();
        let mut text = String::new();
        let mut end = String::new();
        self.objects(scope, &mut text, &mut end, 1);
        for number in 0..more {
            for (statement, _) in must.iter_mut().zip(&at).filter(|(_, at)| **at == number) {
                text += &self.placed(*statement, scope);
                text += self.step();
            }
            self.statement(scope, &mut text, &mut end);
        }
        text += &self.last(scope);
        let body = text + &end;
        match self.has(Feature::Throw) {
            true => self.attempts(&body),
            false => body,
        }
    }

    /// A block without its braces. What it allocates by hand it frees at its end.
    pub fn block(&mut self, outer: &Scope, statements: usize) -> String {
        let mut scope = outer.clone();
        scope.depth += 1;
        let (mut text, mut end) = (String::new(), String::new());
        let least = 1 + usize::from(self.draw.one_in(2));
        self.objects(&mut scope, &mut text, &mut end, least);
        for _ in 0..statements {
            self.statement(&mut scope, &mut text, &mut end);
        }
        text + &self.last(&scope) + &end
    }

    fn objects(&mut self, scope: &mut Scope, text: &mut String, end: &mut String, least: usize) {
        while scope.objects.len() < least {
            *text += &self.object(scope, end);
        }
    }

    fn last(&mut self, scope: &Scope) -> String {
        let one = self.draw.of(&scope.objects).clone();
        put(
            "SEE(@words@, @model@);\n",
            &[("words", &one.words), ("model", &one.model)],
        )
    }

    fn statement(&mut self, scope: &mut Scope, text: &mut String, end: &mut String) {
        let nested = scope.depth < DEEPEST;
        let statement = match self.draw.below(if nested { 18 } else { 9 }) {
            0 => self.object(scope, end),
            1..=4 => self.launch(scope),
            5..=6 => self.copy(scope),
            7 => self.last(scope),
            8 if self.has(Feature::Query) => self.query(),
            8 => self.swapped(scope),
            9..=10 => self.branch(scope),
            11 => self.counted(scope),
            12 => self.called(scope),
            _ => self.attack(scope),
        };
        *text += &statement;
        *text += self.step();
        if scope.awaits {
            *text += "co_await std::suspend_always{};\n";
        }
    }

    fn attack(&mut self, scope: &mut Scope) -> String {
        let own: Vec<Statement> = ATTACKS
            .iter()
            .filter(|(feature, _, of_program)| self.has(*feature) && !(*of_program && scope.several))
            .map(|(_, statement, _)| *statement)
            .collect();
        if own.is_empty() || self.calls == 0 {
            return self.launch(scope);
        }
        let statement = *self.draw.of(&own);
        self.placed(statement, scope)
    }

    /// A statement of a feature: among the objects of this function, or in a function with an object of its
    /// own, where nothing else hides it from the pass.
    fn placed(&mut self, statement: Statement, scope: &mut Scope) -> String {
        if self.draw.one_in(2) {
            return statement(self, scope);
        }
        let mut inner = Scope {
            depth: scope.depth + 1,
            several: scope.several,
            ..Scope::default()
        };
        let (mut text, mut end) = (String::new(), String::new());
        self.objects(&mut inner, &mut text, &mut end, 1);
        text += self.step();
        text += &statement(self, &mut inner);
        text += &self.last(&inner);
        let (name, linkage) = (self.name("scene"), self.linkage());
        self.functions += &put(
            "@linkage@ void @name@(Answer &answer, size_t n) {\n@text@@end@}\n\n",
            &[
                ("linkage", &linkage),
                ("name", &name),
                ("text", &text),
                ("end", &end),
            ],
        );
        let name = self.reached(&name);
        format!("{name}(answer, n);\n")
    }

    /// A new object with values in all its words.
    pub fn object(&mut self, scope: &mut Scope, end: &mut String) -> String {
        let (name, model) = (self.name("b"), self.name("m"));
        let owned = self.draw.one_in(if self.has(Feature::Throw) { 2 } else { 5 });
        let words = match owned {
            true => format!("{name}.words"),
            false => name.clone(),
        };
        let made = match owned {
            true => "Owner @name@(n);\n",
            false => "unsigned *@name@;\nCHECK(cudaMalloc(&@name@, BYTES(n)));\n",
        };
        if !owned {
            end.insert_str(0, &format!("CHECK(cudaFree({words}));\n"));
        }
        let object = LiveObject { words, model };
        let text =
            put(made, &[("name", &name)]) + &format!("Model {}(n);\n", object.model) + &self.filled(&object);
        scope.objects.push(object);
        text
    }

    /// Values in all words of an object.
    pub fn filled(&mut self, object: &LiveObject) -> String {
        let way = *self.draw.of(&[
            "CHECK(cudaMemset(@words@, @k@, BYTES(n)));\n@model@.set(@k@);\n",
            "LAUNCH(sow, @shape@, 0, @words@, n, @k@u);\n@model@.sow(@k@);\n",
            "@model@.sow(@k@);\nCHECK(cudaMemcpy(@words@, @model@.data(), BYTES(n), cudaMemcpyHostToDevice));\n",
        ]);
        let (k, shape) = (self.draw.below(250), self.shape());
        put(
            way,
            &[
                ("words", &object.words),
                ("model", &object.model),
                ("k", &k),
                ("shape", &shape),
            ],
        )
    }

    /// An object of its own for a statement: what makes it, and what frees it.
    pub fn fresh(&mut self) -> (LiveObject, String, String) {
        let (mut inner, mut end) = (Scope::default(), String::new());
        let text = self.object(&mut inner, &mut end);
        (inner.objects.remove(0), text, end)
    }

    /// Two objects, which may be the same.
    fn two(&mut self, scope: &Scope) -> (LiveObject, LiveObject) {
        let one = self.draw.of(&scope.objects).clone();
        (one, self.draw.of(&scope.objects).clone())
    }

    /// The text of a launch.
    pub fn launch(&mut self, scope: &mut Scope) -> String {
        let (to, from) = self.two(scope);
        let (k, shape) = (self.constant(), self.shape());
        let alike = to.words == from.words;
        let way = match self.draw.below(4) {
            0 | 1 if !alike => "LAUNCH(blend, @shape@, 0, @to@, @from@, n);\n@tom@.blend(@fromm@);\n",
            2 if !alike => {
                "LAUNCH(viewed, @shape@, 0, View{@to@, n}, View{@from@, n});\n@tom@.blend(@fromm@);\n"
            }
            _ => "LAUNCH(stir, @shape@, 0, @to@, n, @k@u);\n@tom@.stir(@k@u);\n",
        };
        put(
            way,
            &[
                ("shape", &shape),
                ("to", &to.words),
                ("from", &from.words),
                ("tom", &to.model),
                ("fromm", &from.model),
                ("k", &k),
            ],
        )
    }

    fn copy(&mut self, scope: &mut Scope) -> String {
        let (to, from) = self.two(scope);
        let part = *self.draw.of(&["n", "n / 2", "n - 3"]);
        let way = match self.draw.below(3) {
            0 if to.words != from.words => {
                "CHECK(cudaMemcpyAsync(@to@, @from@, BYTES(@part@), cudaMemcpyDeviceToDevice, 0));\n\
                 @tom@.copy(@fromm@, @part@);\n"
            }
            1 => {
                "{\n  Model host(n);\n  host.sow(@k@);\n  CHECK(cudaMemcpy(@to@, host.data(), BYTES(@part@), \
                 cudaMemcpyHostToDevice));\n  @tom@.copy(host, @part@);\n}\n"
            }
            _ => "CHECK(cudaMemsetAsync(@to@, @k@ % 200, BYTES(n), 0));\n@tom@.set(@k@ % 200);\n",
        };
        let k = self.constant();
        put(
            way,
            &[
                ("to", &to.words),
                ("from", &from.words),
                ("tom", &to.model),
                ("fromm", &from.model),
                ("part", &part),
                ("k", &k),
            ],
        )
    }

    /// Two pointers exchange what they hold, and their models with them.
    fn swapped(&mut self, scope: &mut Scope) -> String {
        let (one, other) = self.two(scope);
        let is_pointer = |object: &LiveObject| object.words.starts_with('b') && !object.words.contains('.');
        if !is_pointer(&one) || !is_pointer(&other) {
            return self.launch(scope);
        }
        put(
            "std::swap(@one@, @other@);\nstd::swap(@onem@, @otherm@);\n",
            &[
                ("one", &one.words),
                ("other", &other.words),
                ("onem", &one.model),
                ("otherm", &other.model),
            ],
        )
    }

    /// A block in a branch that follows from what was seen.
    fn branch(&mut self, scope: &mut Scope) -> String {
        let statements = 1 + self.draw.below(2);
        let then = self.block(scope, statements);
        let of = 2 + self.draw.below(3);
        let other = match self.draw.one_in(3) {
            true => self.block(scope, 1),
            false => String::new(),
        };
        put(
            "if (answer.value % @of@ != 0) {\n@then@} else {\n@other@}\n",
            &[("of", &of), ("then", &then), ("other", &other)],
        )
    }

    fn counted(&mut self, scope: &mut Scope) -> String {
        let statements = 1 + self.draw.below(2);
        let (body, i) = (self.block(scope, statements), self.name("i"));
        let times = 2 + self.draw.below(3);
        let first = *self.draw.of(&[
            "",
            "",
            "if (answer.value % 7 == 3)\n  break;\n",
            "if (answer.value % 5 == 1)\n  continue;\n",
        ]);
        put(
            "for (int @i@ = 0; @i@ < @times@; @i@++) {\n@first@@body@}\n",
            &[("i", &i), ("times", &times), ("first", &first), ("body", &body)],
        )
    }

    /// A function of its own over objects of this one.
    pub fn called(&mut self, scope: &mut Scope) -> String {
        if self.calls == 0 {
            return self.launch(scope);
        }
        let object = self.draw.of(&scope.objects).clone();
        let call = self.function(&object, scope);
        format!("{call}\n")
    }

    /// Makes a function over an object; its call.
    pub fn function(&mut self, object: &LiveObject, scope: &Scope) -> String {
        self.calls = self.calls.saturating_sub(1);
        let name = self.name("f");
        let inner = Scope {
            objects: vec![LiveObject {
                words: "a".to_owned(),
                model: "am".to_owned(),
            }],
            depth: scope.depth + 1,
            awaits: false,
            several: scope.several,
        };
        let statements = 2 + self.draw.below(2);
        let (body, linkage) = (self.block(&inner, statements), self.linkage());
        self.functions += &put(
            "@linkage@ void @name@(Answer &answer, size_t n, unsigned *a, Model &am) {\n@body@}\n\n",
            &[("linkage", &linkage), ("name", &name), ("body", &body)],
        );
        let name = self.reached(&name);
        format!("{name}(answer, n, {}, {});", object.words, object.model)
    }

    fn query(&mut self) -> String {
        "{\n  size_t there, total;\n  CHECK(cudaMemGetInfo(&there, &total));\n  EXPECT(there <= total && total > 0);\n}\n"
            .to_owned()
    }
}
