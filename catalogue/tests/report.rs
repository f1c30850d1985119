//! The report's JSON: what the pass writes is what `mgb explain` reads.

use mgb_catalogue::report::{
    KernelParts, KernelReport, NeedFormulas, ObjectReport, OpReport, ReadError, Reason, ReasonCode, Report,
    SourceLocation, TaskKind, TaskReport, parse_all,
};

fn sample() -> Report {
    let at = |line| SourceLocation { line, file: None };
    Report {
        version: 1,
        source: "va.cu".into(),
        tasks: vec![
            TaskReport {
                id: 1,
                function: "main".into(),
                kind: TaskKind::Static,
                ops: vec![
                    OpReport {
                        op: "cudaMalloc".into(),
                        at: at(13),
                        kernel: None,
                        objects: vec![1],
                    },
                    OpReport {
                        op: "launch".into(),
                        at: at(20),
                        kernel: Some("add(float*)".into()),
                        objects: vec![1],
                    },
                ],
                objects: vec![ObjectReport {
                    id: 1,
                    name: "da".into(),
                    bytes: "4 * n".into(),
                    variable: false,
                }],
                need: Some(NeedFormulas {
                    peak: "4 * n".into(),
                    grid: "(n + 255) / 256".into(),
                    block: "256".into(),
                    shared: "0".into(),
                    registers: Some(32),
                }),
                begin: Some(at(12)),
                ends: vec![at(30)],
                ..TaskReport::default()
            },
            TaskReport {
                id: 2,
                function: "run".into(),
                reasons: vec![Reason {
                    code: ReasonCode::NoDominatingPoint,
                    text: "no point dominates both launches".into(),
                    at: Some(at(40)),
                }],
                ..TaskReport::default()
            },
        ],
        module_reasons: vec![Reason {
            code: ReasonCode::OpenProcess,
            text: "calls cuInit".into(),
            at: None,
        }],
        kernels: vec![KernelReport {
            kernel: "add(float*)".into(),
            parts: KernelParts::Slices,
            reasons: vec![Reason {
                code: ReasonCode::BarrierApart,
                text: "the kernel has a barrier".into(),
                at: None,
            }],
        }],
    }
}

#[test]
fn a_program_of_two_modules_reads_back() {
    let line = sample().to_line();
    let mut section = line.clone().into_bytes();
    section.extend([0; 7]);
    section.extend(line.into_bytes());
    assert_eq!(parse_all(&section).unwrap(), [sample(), sample()]);
    assert_eq!(parse_all(b"").unwrap(), []);
}

#[test]
fn the_written_form_stays() {
    let value: serde_json::Value = serde_json::from_str(&sample().to_line()).unwrap();
    assert_eq!(value["tasks"][0]["kind"], "static");
    assert_eq!(value["tasks"][0]["ops"][1]["line"], 20);
    assert_eq!(value["tasks"][1]["reasons"][0]["code"], "no-dominating-point");
    assert_eq!(value["tasks"][1]["reasons"][0]["line"], 40);
    assert_eq!(value["kernels"][0]["parts"], "slices");
    assert_eq!(value["kernels"][0]["reasons"][0]["code"], "barrier-apart");
    assert_eq!(ReasonCode::NoDominatingPoint.to_string(), "no-dominating-point");
}

#[test]
fn unknown_codes_are_read_and_newer_documents_refused() {
    let later = r#"{"version":1,"source":"a.cu","tasks":[],"module_reasons":[{"code":"x-y","text":"z"}]}"#;
    assert_eq!(
        parse_all(later.as_bytes()).unwrap()[0].module_reasons[0].code,
        ReasonCode::Other
    );
    let newer = parse_all(br#"{"version":2,"anything":[]}"#).unwrap_err();
    assert!(matches!(newer, ReadError::Newer { found: 2 }));
    assert!(newer.to_string().contains("use the MGB that compiled it"));
    assert!(matches!(
        parse_all(b"{\"version\":1").unwrap_err(),
        ReadError::Malformed(_)
    ));
}
