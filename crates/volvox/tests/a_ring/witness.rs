//! Two cells and a witness: either cell may end.

use crate::cells::Cells;
use crate::support::Client;

#[test]
fn with_a_witness_either_of_two_cells_may_end_and_the_other_serves_everything() {
    let mut ring = Cells::plan("witness", 2, &[]);
    let witness = ring.plan_witness();
    ring.start(0);
    ring.until(0, &["cells_wanted 2"]);
    ring.start(witness);
    ring.until(0, &["cell:2:witness yes", "ranges 0"]);
    ring.start(1);
    let whole = ["ranges 2", "ranges_short_of_copies 0", "voters 1,2,3", "recoveries 0"];
    ring.until(0, &whole);
    ring.until(1, &whole);
    let (code, text) = ring.ctl(0, &["ring"]);
    assert!(code == 0 && text.contains("witness") && text.contains("voters: 1-3;"), "{text}");

    let keys: Vec<String> = (0..50).map(|key| format!("key:{key}")).collect();
    let mut value = 0;
    // The founder is the first leader of the agreement.
    for victim in [0, 1] {
        let (other, lives) = (1 - victim, if victim == 0 { 3 } else { 1 });
        let mut client = Client::connect(ring.clients(victim));
        for key in &keys {
            assert_eq!(client.ask(&format!("set {key} 0 0 1\r\n{value}\r\n")), "STORED");
        }
        ring.kill(victim);
        let survivor = if other == 0 { 1 } else { lives };
        let led = ["1", "2"].map(|range| format!("range:{range}:primary {survivor}"));
        ring.until(other, &[&led[0], &led[1], "range:1:serves yes", "range:2:serves yes"]);
        let mut client = Client::connect(ring.clients(other));
        for key in &keys {
            assert_eq!(client.get(key), Some(value.to_string()), "{key}");
            value = (value + 1) % 10;
            assert_eq!(client.ask(&format!("set {key} 0 0 1\r\n{value}\r\n")), "STORED");
            assert_eq!(client.get(key), Some(value.to_string()), "{key}");
            value = 0;
            assert_eq!(client.ask(&format!("set {key} 0 0 1\r\n{value}\r\n")), "STORED");
        }
        ring.start(victim);
        ring.until(victim, &["ranges_short_of_copies 0"]);
        ring.until(other, &["ranges_short_of_copies 0"]);
    }
    // The witness itself may end too, and returns as who it was.
    ring.kill(witness);
    assert_eq!(Client::connect(ring.clients(0)).ask("set last 0 0 1\r\nx\r\n"), "STORED");
    ring.start(witness);
    ring.until(0, &["cell:2:start 2", "cell:2:heard yes", "ranges_short_of_copies 0"]);
    assert_eq!(Client::connect(ring.clients(1)).get("last").as_deref(), Some("x"));
}
