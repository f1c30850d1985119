//! Functions that are entered again before they have returned: by themselves, by one another, through
//! pointers and virtual methods. Each activation has an object of its own.

use super::program::{AttackProgram, LiveObject, Scope};
use super::text::put;

const PARAMETERS: &str = "Answer &answer, size_t n, int depth, unsigned *above, Model &abovem";

/// How the next activation is entered; `@next@` is its name, `@s@` one of its own.
const ENTERS: [(&str, &str); 5] = [
    ("", "@next@(answer, n, depth - 1, @own@, @ownm@);\n"),
    (
        "static auto *volatile enter@s@ = @next@;\n",
        "enter@s@(answer, n, depth - 1, @own@, @ownm@);\n",
    ),
    // A virtual method.
    (
        "struct Enter@s@ {\n  virtual ~Enter@s@() {}\n  NEVER_INLINE virtual void call(@parameters@) { @next@(answer, n, depth, above, abovem); }\n};\n\
         static Enter@s@ entered@s@;\nstatic Enter@s@ *volatile enter@s@ = &entered@s@;\n",
        "enter@s@->call(answer, n, depth - 1, @own@, @ownm@);\n",
    ),
    // A callback of a function that knows nothing of it.
    (
        "template <class F> NEVER_INLINE void visit@s@(F &&f, int times) {\n  for (int i = 0; i < times; i++)\n    f(i);\n}\n",
        "visit@s@([&](int i) { @next@(answer, n, depth - 1 - i, @own@, @ownm@); }, depth > 1 ? 2 : 1);\n",
    ),
    // A callback with the caller's data behind a pointer.
    (
        "struct Call@s@ {\n  Answer *answer;\n  size_t n;\n  int depth;\n  unsigned *own;\n  Model *ownm;\n};\n\
         NEVER_INLINE static void called@s@(void *at) {\n  auto *call = static_cast<Call@s@ *>(at);\n  \
         @next@(*call->answer, call->n, call->depth - 1, call->own, *call->ownm);\n}\n\
         static void (*volatile enter@s@)(void *) = called@s@;\n",
        "Call@s@ call@s@ = {&answer, n, depth, @own@, &@ownm@};\nenter@s@(&call@s@);\n",
    ),
];

impl AttackProgram {
    /// A circle of one to three functions.
    pub fn recursion(&mut self, scope: &mut Scope) -> String {
        self.calls = self.calls.saturating_sub(1);
        let names: Vec<String> = (0..1 + self.draw.below(3)).map(|_| self.name("deep")).collect();
        for name in &names {
            self.functions += &format!("NEVER_INLINE static void {name}({PARAMETERS});\n");
        }
        for (at, name) in names.iter().enumerate() {
            self.activation(name, &names[(at + 1) % names.len()], scope.several);
        }
        let object = self.draw.of(&scope.objects).clone();
        let depth = 1 + self.draw.below(4);
        put(
            "@name@(answer, n, @depth@, @words@, @model@);\n",
            &[
                ("name", &names[0]),
                ("depth", &depth),
                ("words", &object.words),
                ("model", &object.model),
            ],
        )
    }

    /// One function, with its object before, across or after the next activation.
    fn activation(&mut self, name: &str, next: &str, several: bool) {
        let (own, made, freed) = self.fresh();
        let (before, enter) = *self.draw.of(&ENTERS);
        let s = self.name("");
        let shared = self.draw.one_in(2);
        let (words, model) = match shared {
            true => (own.words.clone(), own.model.clone()),
            false => ("above".to_owned(), "abovem".to_owned()),
        };
        let before = put(before, &[("s", &s), ("next", &next), ("parameters", &PARAMETERS)]);
        let enter = put(
            enter,
            &[("s", &s), ("next", &next), ("own", &words), ("ownm", &model)],
        );
        let above = LiveObject {
            words: "above".to_owned(),
            model: "abovem".to_owned(),
        };
        let mut inner = Scope {
            objects: vec![own.clone(), above],
            depth: 2,
            awaits: false,
            several,
        };
        let (first, last) = (self.launch(&mut inner), self.launch(&mut inner));
        let step = self.step();
        let see = put(
            "SEE(@own@, @ownm@);\n",
            &[("own", &own.words), ("ownm", &own.model)],
        );
        let guarded = format!("if (depth > 0) {{\n{enter}}}\n");
        // Where the object is passed on, it is there before and after.
        let order = match (shared, self.draw.below(4)) {
            (false, 0) => [made, first, see, freed, step.to_owned(), guarded],
            (false, 1) => [guarded, step.to_owned(), made, last, see, freed],
            (_, 2) => [made + &first, guarded, step.to_owned(), last, see, freed],
            _ => [made, guarded, step.to_owned() + &first, last, see, freed],
        };
        let body = order.concat();
        self.functions += &put(
            "@before@NEVER_INLINE static void @name@(@parameters@) {\n@body@}\n\n",
            &[
                ("before", &before),
                ("name", &name),
                ("parameters", &PARAMETERS),
                ("body", &body),
            ],
        );
    }
}
