//! Addresses that the host reads back from device memory, and passes on as if they were new.

use super::program::{AttackProgram, Scope};
use super::text::put;

/// How `back` is read from where a kernel told it.
const READS: [&str; 5] = [
    "CHECK(cudaMemcpy(&back, told, sizeof back, cudaMemcpyDeviceToHost));\n",
    "CHECK(cudaMemcpyAsync(&back, told, sizeof back, cudaMemcpyDeviceToHost, 0));\nCHECK(cudaDeviceSynchronize());\n",
    "unsigned **pinned;\nCHECK(cudaMallocHost(&pinned, sizeof *pinned));\n\
     CHECK(cudaMemcpyAsync(pinned, told, sizeof back, cudaMemcpyDeviceToHost, 0));\nCHECK(cudaStreamSynchronize(0));\n\
     back = *pinned;\nCHECK(cudaFreeHost(pinned));\n",
    "unsigned char bytes[8];\nCHECK(cudaMemcpy(bytes, told, 8, cudaMemcpyDeviceToHost));\nmemcpy(&back, bytes, 8);\n",
    "View views[1];\nCHECK(cudaMemcpy(views, told, 8, cudaMemcpyDeviceToHost));\nback = views[0].words;\n",
];

/// What is done with it.
const USES: [&str; 6] = [
    "LAUNCH(stir, @shape@, 0, back, n, @k@u);\n@model@.stir(@k@u);\n",
    "CHECK(cudaMemset(back, @k@ % 200, BYTES(n)));\n@model@.set(@k@ % 200);\n",
    "SEE(back, @model@);\n",
    "LAUNCH(stir, @shape@, 0, back + n / 2, n - n / 2, @k@u);\n@model@.stir(@k@u, n / 2);\n",
    "@model@.sow(@k@);\nCHECK(cudaMemcpy(back, @model@.data(), BYTES(n), cudaMemcpyHostToDevice));\n",
    "LAUNCH(viewed, @shape@, 0, View{back, n / 3}, View{back + n / 2, n / 3});\n\
     for (size_t i = 0; i < n / 3; i++)\n  @model@.words[i] = @model@.words[i] * 5 + @model@.words[n / 2 + i];\n",
];

impl AttackProgram {
    /// An address that goes into device memory and comes back.
    pub fn read_back(&mut self, _scope: &mut Scope) -> String {
        let (object, made, freed) = self.fresh();
        let hiding = self.hiding(false);
        let (table, made_table, freed_table) = match hiding.table {
            true => (
                "there, ",
                "unsigned long long *there;\nCHECK(cudaMalloc(&there, 64));\n",
                "CHECK(cudaFree(there));\n",
            ),
            false => ("", "", ""),
        };
        let by_symbol = hiding.variable.as_ref().filter(|_| self.draw.one_in(2)).cloned();
        let read = match &by_symbol {
            Some(v) => format!("CHECK(cudaMemcpyFromSymbol(&back, {v}, sizeof back));\n"),
            None => {
                let read = *self.draw.of(&READS);
                put(
                    "unsigned long long *told;\nCHECK(cudaMalloc(&told, 8));\nLAUNCH(@tells@, 1, 1, 0, @table@told);\n@read@CHECK(cudaFree(told));\n",
                    &[("tells", &hiding.tells), ("table", &table), ("read", &read)],
                )
            }
        };
        let mut text = put(
            "{\n@made@@made_table@LAUNCH(@keep@, 1, 1, 0, @table@@words@);\nunsigned *back;\n@read@@step@",
            &[
                ("made", &made),
                ("made_table", &made_table),
                ("keep", &hiding.keep),
                ("table", &table),
                ("words", &object.words),
                ("read", &read),
                ("step", &self.step()),
            ],
        );
        for _ in 0..1 + self.draw.below(3) {
            text += &self.use_of_back(&object.model);
            text += self.step();
        }
        // The last use is the original's.
        let by_back = self.draw.one_in(4) && !object.words.contains('.');
        let freed = if by_back {
            "CHECK(cudaFree(back));\n".to_owned()
        } else {
            freed
        };
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

    /// A use of `back`, here or in a function that gets it.
    fn use_of_back(&mut self, model: &str) -> String {
        let (k, shape) = (self.constant(), self.shape());
        let way = *self.draw.of(&USES);
        let text = |model: &str| put(way, &[("shape", &shape), ("k", &k), ("model", &model)]);
        if self.draw.one_in(3) {
            return text(model);
        }
        let (name, linkage, step) = (self.name("onward"), self.linkage(), self.step());
        let body = text("held");
        self.functions += &put(
            "@linkage@ void @name@(Answer &answer, size_t n, unsigned *back, Model &held) {\n@body@@step@}\n\n",
            &[
                ("linkage", &linkage),
                ("name", &name),
                ("body", &body),
                ("step", &step),
            ],
        );
        let name = self.reached(&name);
        format!("{name}(answer, n, back, {model});\n")
    }
}
