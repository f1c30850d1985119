//! Kernels that publish addresses, and functions whose kernels follow them.

use super::features::Feature;
use super::hiding::Hiding;
use super::program::{AttackProgram, LiveObject, Scope};
use super::text::put;

impl AttackProgram {
    /// An object whose address a kernel keeps, and users that have no other way to it.
    pub fn publish(&mut self, scope: &mut Scope) -> String {
        let (object, made, freed) = match self.draw.one_in(4) {
            true => (self.draw.of(&scope.objects).clone(), String::new(), String::new()),
            false => self.fresh(),
        };
        let hiding = self.hiding(false);
        let (table, made_table, freed_table) = self.table(&hiding);
        let mut text = put(
            "{\n@made@@table@LAUNCH(@keep@, 1, 1, 0, @first@@words@);\n",
            &[
                ("made", &made),
                ("table", &made_table),
                ("keep", &hiding.keep),
                ("first", &table),
                ("words", &object.words),
            ],
        );
        for _ in 0..1 + self.draw.below(3) {
            text += self.step();
            text += &self.use_of(&hiding, &object, &table);
        }
        text += &put(
            "SEE(@words@, @model@);\n@freed@@freed_table@}\n",
            &[
                ("words", &object.words),
                ("model", &object.model),
                ("freed", &freed),
                ("freed_table", &freed_table),
            ],
        );
        text
    }

    /// A table for the kernels that want one: as their first argument, and what makes and frees it.
    fn table(&mut self, hiding: &Hiding) -> (String, String, String) {
        if !hiding.table {
            return Default::default();
        }
        let name = self.name("table");
        let made = put(
            "unsigned long long *@name@;\nCHECK(cudaMalloc(&@name@, 64));\n",
            &[("name", &name)],
        );
        (format!("{name}, "), made, format!("CHECK(cudaFree({name}));\n"))
    }

    /// One use: here, in a loop, or in a function that knows nothing of the object.
    fn use_of(&mut self, hiding: &Hiding, object: &LiveObject, table: &str) -> String {
        let (k, shape, step) = (self.constant(), self.shape(), self.step());
        let direct = put(
            "LAUNCH(@stirs@, @shape@, 0, @table@n, @k@u);\n@model@.stir(@k@u);\n",
            &[
                ("stirs", &hiding.stirs),
                ("shape", &shape),
                ("table", &table),
                ("k", &k),
                ("model", &object.model),
            ],
        );
        let way = self.draw.below(6);
        if way == 0 {
            return direct;
        }
        let name = self.user(hiding);
        let call = put(
            "@name@(answer, n, @table@@model@, @k@u);\n",
            &[
                ("name", &name),
                ("table", &table),
                ("model", &object.model),
                ("k", &k),
            ],
        );
        match way {
            1 => format!("for (int round = 0; round < 3; round++) {{\n{call}{step}}}\n"),
            // An exception could not leave the thread.
            2 if !self.has(Feature::Throw) => format!("in_thread([&] {{\n{call}}});\n"),
            3 => direct + &call,
            _ => call,
        }
    }

    /// A function with work of its own that follows the address; its name.
    pub fn user(&mut self, hiding: &Hiding) -> String {
        let name = self.name("user");
        let (own, made, freed) = self.fresh();
        let (step, shape, linkage) = (self.step(), self.shape(), self.linkage());
        let (parameter, first) = match hiding.table {
            true => ("unsigned long long *table, ", "table, "),
            false => ("", ""),
        };
        let order = *self.draw.of(&[
            "@made@@step@@blend@@step@@stir@@see@@freed@",
            "@stir@@step@@made@@blend@@see@@freed@",
            "@stir@@step@@stir@",
            "@made@@blend@@see@@freed@@step@@stir@",
        ]);
        let stir = put(
            "LAUNCH(@stirs@, @shape@, 0, @first@n, k);\nheld.stir(k);\n",
            &[("stirs", &hiding.stirs), ("shape", &shape), ("first", &first)],
        );
        let blend = put(
            "LAUNCH(@blends@, 2, 64, 0, @first@@own@, n);\n@ownm@.blend(held);\n",
            &[
                ("blends", &hiding.blends),
                ("first", &first),
                ("own", &own.words),
                ("ownm", &own.model),
            ],
        );
        let see = put(
            "SEE(@own@, @ownm@);\n",
            &[("own", &own.words), ("ownm", &own.model)],
        );
        let body = put(
            order,
            &[
                ("made", &made),
                ("step", &step),
                ("blend", &blend),
                ("stir", &stir),
                ("see", &see),
                ("freed", &freed),
            ],
        );
        self.functions += &put(
            "@linkage@ void @name@(Answer &answer, size_t n, @parameter@Model &held, unsigned k) {\n@body@}\n\n",
            &[
                ("linkage", &linkage),
                ("name", &name),
                ("parameter", &parameter),
                ("body", &body),
            ],
        );
        self.reached(&name)
    }
}
