//! Texts as LLVM hands them over, each of which LLVM must take translated.
use super::super::ForeignFunction;
use super::super::tests::accept_bodies;
use super::body;

fn foreign<'a>(text: &'a str, returns: &str, takes: &[&str]) -> ForeignFunction<'a> {
    ForeignFunction {
        name: text,
        returns: returns.to_owned(),
        takes: takes.iter().map(|&ty| ty.to_owned()).collect(),
    }
}

/// Translates texts with their constraints, result and parameters, and has LLVM read them together.
pub fn accept(texts: &[(&str, &str, &str, &[&str])]) {
    let bodies = texts.iter().map(|(text, constraints, returns, takes)| {
        let foreign = foreign(text, returns, takes);
        let body = body(&foreign, constraints).unwrap_or_else(|at| panic!("{text}: does not know {at}"));
        (foreign, body)
    });
    accept_bodies(bodies.collect());
}

/// That a text is not translated, and that the message quotes it.
pub fn refused(text: &str) {
    match body(&foreign(text, "i32", &["i32"]), "=r,r") {
        Err(error) => assert_eq!(error, text.trim_end_matches(';')),
        Ok(_) => panic!("{text} is translated"),
    }
}

#[test]
fn instructions_of_every_family() {
    accept(&[
        ("bar.sync 0;", "", "void", &[]),
        ("barrier.sync $0, $1;", "r,r", "void", &["i32", "i32"]),
        (
            "{.reg .pred p; setp.ne.s32 p, $1, 0; bar.red.popc.u32 $0, 0, p;}",
            "=r,r",
            "i32",
            &["i32"],
        ),
        ("membar.gl;", "~{memory}", "void", &[]),
        ("fence.acq_rel.gpu;", "~{memory}", "void", &[]),
        ("mov.u32 $0, %laneid;", "=r", "i32", &[]),
        ("mov.u64 $0, %globaltimer;", "=l", "i64", &[]),
        ("mov.u32 $0, %lanemask_lt;", "=r", "i32", &[]),
        ("mov.u32 $0, %ctaid.y;", "=r", "i32", &[]),
        ("mov.u32 $0, %envreg2;", "=r", "i32", &[]),
        (
            "shf.l.wrap.b32 $0, $1, $2, $3;",
            "=r,r,r,r",
            "i32",
            &["i32", "i32", "i32"],
        ),
        ("rsqrt.approx.ftz.f64 $0, $1;", "=d,d", "double", &["double"]),
        (
            "sub.rm.f64 $0, $1, $2;",
            "=d,d,d",
            "double",
            &["double", "double"],
        ),
        ("bfind.shiftamt.u32 $0, $1;", "=r,r", "i32", &["i32"]),
        (
            "bfe.s32 $0, $1, $2, $3;",
            "=r,r,r,r",
            "i32",
            &["i32", "i32", "i32"],
        ),
        (
            "lop3.b32 $0, $1, $2, $3, 0x96;",
            "=r,r,r,r",
            "i32",
            &["i32", "i32", "i32"],
        ),
        ("ld.global.cs.s8 $0, [$1];", "=r,l", "i32", &["ptr"]),
        (
            "ld.relaxed.gpu.v4.u32 {$0,$1,$2,$3}, [$4+16];",
            "=r,=r,=r,=r,l",
            "{ i32, i32, i32, i32 }",
            &["i64"],
        ),
        (
            "st.release.gpu.v2.u32 [$0], {$1,$2};",
            "l,r,r",
            "void",
            &["ptr", "i32", "i32"],
        ),
        (
            "{ atom.add.noftz.bf16x2 $0,[$1],$2; }",
            "=r,l,r,~{memory}",
            "i32",
            &["i64", "i32"],
        ),
        ("red.or.release.cta.b32 [$0],$1;", "l,r", "void", &["ptr", "i32"]),
        (
            "atom.cas.b64 $0,[$1],$2,$3;",
            "=l,l,l,l",
            "i64",
            &["ptr", "i64", "i64"],
        ),
        (
            "{fma.rn.f16x2 $0,$1,$2,$3;\n}",
            "=r,r,r,r",
            "i32",
            &["i32", "i32", "i32"],
        ),
        ("tanh.approx.f16 $0, $0;", "=h,0", "i16", &["i16"]),
        (
            "{ cvt.rn.bf16x2.f32 $0, $2, $1;}",
            "=r,f,f",
            "i32",
            &["float", "float"],
        ),
        ("cvt.rzi.s8.f16 $0, $1;", "=r,h", "i32", &["i16"]),
        ("cvt.rz.f16.u64 $0, $1;", "=h,l", "i16", &["i64"]),
        (
            "{ set.gtu.u32.f16x2 $0,$1,$2;\n}",
            "=r,r,r",
            "i32",
            &["i32", "i32"],
        ),
        (
            "vabsdiff4.s32.s32.s32.add $0,$1,$2,$3;",
            "=r,r,r,r",
            "i32",
            &["i32", "i32", "i32"],
        ),
        (
            "vset2.u32.u32.ge $0,$1,$2,$3;",
            "=r,r,r,r",
            "i32",
            &["i32", "i32", "i32"],
        ),
        (
            "dp2a.hi.s32.s32 $0, $1, $2, $3;",
            "=r,r,r,r",
            "i32",
            &["i32", "i32", "i32"],
        ),
        (
            "cp.async.cg.shared.global [$0], [$1], 16, $2;",
            "r,l,r",
            "void",
            &["i32", "ptr", "i32"],
        ),
        (
            "{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [$1], $2; selp.b32 $0, 1, 0, p;}",
            "=r,r,r",
            "i32",
            &["i32", "i32"],
        ),
        ("cvt.sat.s8.s32 $0, $1;", "=r,r", "i32", &["i32"]),
        (
            "{.reg .pred p; isspacep.shared p, $1; selp.u32 $0, 1, 0, p;}",
            "=r,l",
            "i32",
            &["i64"],
        ),
        ("", "~{memory}", "void", &[]),
    ]);
}

#[test]
fn programs_of_several_statements() {
    accept(&[
        (
            "{ .reg .pred __$$temp3;\n  setp.eq.f16  __$$temp3, $1, $2;\n  selp.u16 $0, 1, 0, __$$temp3;}",
            "=h,h,h",
            "i16",
            &["i16", "i16"],
        ),
        (
            "mad.lo.cc.u32 $0, $2, $3, $4; madc.hi.u32 $1, $2, $3, 0;",
            "=r,=r,r,r,r",
            "{ i32, i32 }",
            &["i32", "i32", "i32"],
        ),
        (
            "{  .reg .u32 r0;  .reg .pred p;  shfl.sync.down.b32 r0|p, $1, $2, $3, $5;  @p add.u32 r0, r0, $4;  mov.u32 $0, r0;}",
            "=r,r,r,r,r,r",
            "i32",
            &["i32", "i32", "i32", "i32", "i32"],
        ),
        (
            "{ .reg .pred p; again: ld.volatile.global.u32 $0, [$1]; setp.eq.u32 p, $0, 0; @p bra again; }",
            "=r,l,~{memory}",
            "i32",
            &["ptr"],
        ),
        (
            "{.reg.b16 hl, hu; .reg.b32 fl, fu; mov.b32 {hl, hu}, $1; cvt.f32.f16 fl, hl; cvt.f32.f16 fu, hu;\
             ex2.approx.ftz.f32 fl, fl; cvt.rn.f16.f32 hl, fl; mov.b32 $0, {hl, hu}; }",
            "=r,r",
            "i32",
            &["i32"],
        ),
    ]);
}

#[test]
fn matrices() {
    const FOUR: &str = "{ float, float, float, float }";
    let f = "float";
    let i = "i32";
    accept(&[
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};",
            "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f",
            FOUR,
            &[i, i, i, i, i, i, f, f, f, f],
        ),
        // An accumulator that is input and output.
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$0,$1,$2,$3};",
            "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3",
            FOUR,
            &[i, i, i, i, i, i, f, f, f, f],
        ),
        (
            "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {$0,$1}, {$2}, {$3}, {$4,$5};",
            "=d,=d,d,d,d,d",
            "{ double, double }",
            &["double"; 4],
        ),
        (
            "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {$0,$1,$2,$3,$4,$5,$6,$7}, [$8+32], $9;",
            "=r,=r,=r,=r,=r,=r,=r,=r,r,r",
            "{ i32, i32, i32, i32, i32, i32, i32, i32 }",
            &[i, i],
        ),
        (
            "wmma.store.d.sync.aligned.col.m8n8k4.global.f64 [$0], {$1,$2};",
            "l,d,d",
            "void",
            &["i64", "double", "double"],
        ),
        (
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {$0,$1,$2,$3}, [$4];",
            "=r,=r,=r,=r,r",
            "{ i32, i32, i32, i32 }",
            &[i],
        ),
        (
            "stmatrix.sync.aligned.m8n8.x1.shared::cta.b16 [$0], {$1};",
            "r,r",
            "void",
            &[i, i],
        ),
        ("movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "=r,r", i, &[i]),
        ("cvt.rna.tf32.f32 $0, $1;", "=r,f", i, &[f]),
    ]);
}

#[test]
fn the_statement_that_is_not_known_is_quoted() {
    for (text, wanted) in [
        (
            "wmma.mma.sync.row.col.m16n16k16.f32.f32 {$0}, {$1}, {$1}, {$1};",
            "wmma.mma.sync",
        ),
        (
            "{ mov.f32 $0, $1; tex.2dms.v4.f32.s32 {$0}, [$1, {$1}]; }",
            "tex.2dms",
        ),
        ("add.bogus.f32 $0, $1, $1;", "add.bogus.f32 $0, $1, $1"),
        ("ldmatrix.sync.aligned.m8n8.x2.b16 {$0}, [$1];", "ldmatrix.sync"),
        ("cvt.rna.satfinite.tf32.f32 $0, $1;", "cvt.rna.satfinite"),
    ] {
        let error = match body(&foreign(text, "float", &["float"]), "=f,f") {
            Err(error) => error,
            Ok(_) => panic!("{text} is translated"),
        };
        assert!(error.starts_with(wanted), "{error}");
    }
}
