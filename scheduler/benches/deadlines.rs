//! How many deadlines are met, by the order of the queue, at 50, 80 and 120 % of what two GPUs can do: `cargo bench
//! -p mgb-scheduler --bench deadlines`. See [`arrivals`] for what is played; it shows the order, not a GPU's
//! speed.

use mgb_interface::Queue;

mod arrivals;
mod h200;

use arrivals::{PROGRAMS, Play, mean};

/// Plays, of which the mean is shown.
const SEEDS: u64 = 20;
const LOADS: [f64; 3] = [0.5, 0.8, 1.2];

fn main() {
    println!(
        "per cent of jobs that met their deadlines (of work that was wasted; of jobs refused), means of {SEEDS}\n"
    );
    for programs in PROGRAMS {
        println!(
            "{:<44} {:>19} {:>19} {:>19}",
            programs.name, "50 %", "80 %", "120 %"
        );
        for (queue, holds) in [
            (Queue::InOrder, false),
            (Queue::Backfill, false),
            (Queue::Shortest, false),
            (Queue::Edf, false),
            (Queue::Laxity, false),
            (Queue::Laxity, true),
        ] {
            for admits in [false, true] {
                let holding = if holds { ", with holds" } else { "" };
                let name = format!("{queue}{holding}{}", if admits { " --or-refuse" } else { "" });
                print!("  {name:<42}");
                for load in LOADS {
                    let play = Play {
                        queue,
                        admits,
                        holds,
                        load,
                        programs,
                    };
                    let came = mean(&play, SEEDS, |index| h200::gpu(index, 100, 1));
                    print!(" {:>6.1} ({:>4.1}; {:>4.1})", came.met, came.wasted, came.refused);
                }
                println!();
            }
        }
        println!();
    }
}
