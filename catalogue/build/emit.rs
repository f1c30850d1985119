//! Writes the table as Rust source.

use std::fmt::Write;

use crate::judge::Judged;

pub fn source(cuda: &str, table: &[Judged]) -> String {
    let mut out = format!("const CUDA_VERSION: &str = {cuda:?};\nstatic TABLE: &[RuntimeFunction] = &[\n");
    for judged in table {
        let function = judged.function;
        let params: String = judged
            .signature
            .params
            .iter()
            .zip(&judged.roles)
            .map(|(param, role)| {
                format!(
                    "Param {{ name: {:?}, ty: {:?}, role: Role::{} }}, ",
                    param.name,
                    param.ty,
                    role.word()
                )
            })
            .collect();
        let base = match function.base.as_str() {
            "" => "None".to_owned(),
            base => format!("Some({base:?})"),
        };
        writeln!(
            out,
            "RuntimeFunction {{ name: {:?}, ret: {:?}, params: &[{params}], family: {:?}, class: Class::{}, \
             treatment: Treatment::{}, creates_context: {}, asynchronous: {}, declared: {}, \
             exported: {}, base: {base}, note: {:?} }},",
            function.name,
            judged.signature.ret,
            judged.family,
            judged.class.word(),
            judged.treatment.word(),
            judged.creates_context,
            judged.asynchronous,
            !function.header.is_empty(),
            !function.version.is_empty(),
            judged.note,
        )
        .expect("a String takes any text");
    }
    out.push_str("];\n");
    out
}
