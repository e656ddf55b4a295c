//! What a random life meets too rarely.

use crate::below::SimBackend;
use crate::cell::{Cell, NOW, begin};
use crate::life::{Config, Given, Unreadable};
use crate::model::KeyModel;
use crate::number;
use faulty::disk::{Fault, SimDisk};

use backend::Fault as BackendFault;
use base::{Facts, Refused, SLICES, SliceRange};
use measure::rng::Rng;
use std::sync::{Arc, mpsc};
use tier::{Ack, Failure, Rules, TierError};

/// The names of the segments of a journal.
fn segments(disk: &SimDisk) -> Vec<String> {
    let mut names = tier::Disk::list(disk).expect("it is a list");
    names.retain(|name| name.starts_with("segment-"));
    names
}

/// Whether anything was written into a segment besides its head.
fn is_used(disk: &SimDisk, name: &str) -> bool {
    disk.bytes_of(name)[600..].iter().any(|byte| *byte != 0)
}

#[test]
fn a_full_journal_takes_changes_again_when_it_is_written_back() {
    for lanes in 1..=3 {
        let mut cell = Cell::new(Config::shortest(lanes), 40);
        for round in 0..4 {
            let mut refused = 0;
            for set in 0.. {
                if cell.set(set % 40, 12_000).is_err() {
                    refused += 1;
                    cell.sync();
                }
                if refused > 200 {
                    break;
                }
            }
            let report = cell.life.tier.report();
            assert!(report.journal_bytes * 2 > report.journal_bytes_max, "{report:?}");
            cell.check();
            if round % 2 == 1 {
                cell.begin_again();
            }
            cell.life.drain(NOW).expect("nothing fails");
            cell.check();
            let report = cell.life.tier.report();
            assert!(report.journal_bytes * 4 < report.journal_bytes_max, "{lanes}: {report:?}");
        }
    }
}

#[test]
fn one_lane_alone_is_changed_and_the_others_do_not_hold_the_journal_up() {
    let mut cell = Cell::new(Config::shortest(3), 40);
    let lane = |cell: &Cell, key: usize| cell.life.lanes.lane_of(cell.keys[key].slice);
    for key in 0..40 {
        cell.set(key, 100).expect("there is room");
    }
    let first = lane(&cell, 0);
    let of_lane: Vec<_> = (0..40).filter(|key| lane(&cell, *key) == first).collect();
    let mut stored = 0;
    for step in 0..5_000 {
        match cell.set(of_lane[step % of_lane.len()], 15_000) {
            Ok(()) => stored += 1,
            Err(_) => {
                cell.sync();
                cell.life.tier.flush(NOW, true).expect("nothing fails");
            }
        }
    }
    // More than the journal has.
    assert!(stored * 15_000 > cell.config.journal_bytes, "{stored} were stored");
    cell.check();
}

#[test]
fn what_the_backend_refuses_stays_dirty_and_is_written_back_later() {
    let mut cell = Cell::new(Config::shortest(2), 20);
    (0..20).for_each(|key| cell.set(key, 300).expect("there is room"));
    cell.sync();
    for failure in [Failure::Transient, Failure::Unknown, Failure::Full, Failure::Permanent] {
        cell.backend.memory.fail_applies(1, BackendFault::Refused(failure));
        let error = cell.life.tier.flush(NOW, true).expect_err("it is refused");
        assert_eq!((error.failure, cell.life.tier.dirty()), (failure, 20));
        cell.check();
    }
    cell.backend.memory.fail_applies(1, BackendFault::CarriedOut);
    cell.life.tier.flush(NOW, true).expect_err("that it was carried out is not known");
    assert_eq!(cell.life.tier.dirty(), 20);
    cell.begin_again();
    cell.life.drain(NOW).expect("nothing fails any more");
    assert_eq!(cell.backend.memory.records().len(), 20);
    cell.check();
}

#[test]
fn a_change_while_its_key_is_written_back_is_not_taken_for_written_back() {
    for change in 0..3 {
        let mut cell = Cell::new(Config::shortest(1), 2);
        (0..2).for_each(|key| cell.set(key, 300).expect("there is room"));
        cell.sync();
        let (tier, backend) = (cell.life.tier.clone(), cell.backend.clone());
        let (back, changed) = mpsc::channel();
        backend.meanwhile(move || {
            let item = cell.keys[0].known().cloned().flatten().expect("it was set");
            let (life, key) = (&mut cell.life, &mut cell.keys[0]);
            let done = match change {
                0 => life.touch(&mut cell.given, key, &item, (NOW.expiry_s + 50, false)),
                1 => life.delete(&mut cell.given, key),
                _ => cell.set(0, 400),
            };
            done.expect("there is room");
            cell.life.sink.end_batch();
            cell.life.tier.write();
            back.send(cell).expect("it is waited for");
        });
        tier.flush(NOW, true).expect("nothing fails");
        let mut cell = changed.recv().expect("it was sent");
        assert_eq!(cell.life.tier.dirty(), 1, "change {change}");
        cell.check();
        cell.sync();
        cell.begin_again();
        cell.check();
        cell.life.drain(NOW).expect("nothing fails");
        cell.check();
    }
}

#[test]
fn what_a_change_supersedes_is_kept_until_that_change_is_durable() {
    for seed in 0..40 {
        let mut cell = Cell::new(Config::shortest(1), 8);
        for key in 1..8 {
            cell.set(key, 19_000).expect("there is room");
            cell.sync();
        }
        cell.set(0, 100).expect("there is room");
        cell.sync();
        let durable = cell.life.passed()[0];
        cell.set(0, 200).expect("there is room");
        cell.life.tier.flush(NOW, true).expect("nothing fails");
        // The next segment says what was written back, and may survive alone.
        (1..4).for_each(|key| cell.set(key, 19_000).expect("there is room"));
        cell.keys.iter_mut().for_each(|key| key.kill(durable, durable));
        cell.disk.cut_power(&mut Rng::new(seed, 9));
        cell.keys.iter_mut().for_each(KeyModel::cut_power);
        cell.begin_whole(seed);
    }
}

#[test]
fn a_ceiling_that_could_not_be_made_durable_does_not_count() {
    let mut cell = Cell::new(Config::shortest(1), 1);
    let slice = cell.keys[0].slice;
    cell.sync();
    cell.life.skip_versions(slice, 60_000);
    cell.set(0, 100).expect("it is below the ceiling");
    // Also when the journal is to go on in other segments.
    cell.disk.fail_times(0, Fault::Sync, 2);
    cell.sync();
    assert!(cell.life.has_failed());
    cell.life.skip_versions(slice, 20_000);
    let refused = cell.life.delete(&mut cell.given, &mut cell.keys[0]);
    assert_eq!(refused, Err(Refused::Full));
}

#[test]
fn what_a_failed_sync_has_dropped_is_written_again_and_survives_a_power_cut() {
    for seed in 0..40 {
        let mut cell = Cell::new(Config::shortest(2), 12);
        (0..12).for_each(|key| cell.set(key, 300).expect("there is room"));
        for round in 0..4 {
            // All that was stored is durable, and segments are ready.
            (0..2).for_each(|_| cell.sync());
            (0..12).for_each(|key| cell.set(key, 300).expect("there is room"));
            cell.disk.fail_after(0, Fault::Sync);
            cell.sync();
            let failure = cell.life.tier.report().failure;
            assert!(failure.is_none() && !cell.life.tier.is_behind(), "{failure:?}");
            assert_eq!(cell.life.tier.report().repairs, round + 1);
        }
        let durable = cell.life.passed();
        for key in &mut cell.keys {
            let at = durable[cell.life.lanes.lane_of(key.slice).index()];
            key.kill(at, at);
        }
        cell.disk.cut_power(&mut Rng::new(seed, 3));
        cell.keys.iter_mut().for_each(KeyModel::cut_power);
        cell.begin_whole(seed);
        assert!(cell.keys.iter().all(|key| matches!(key.known(), Some(Some(_)))), "{seed}");
    }
}

#[test]
fn what_is_written_through_is_durable_before_it_is_below() {
    let mut cell = Cell::new(Config { ack: Ack::Backend, ..Config::shortest(1) }, 1);
    cell.set(0, 100).expect("there is room");
    cell.sync();
    cell.set(0, 100).expect("there is room");
    let flushed = cell.life.tier.flush_through(NOW).expect("nothing fails");
    assert_eq!((flushed.keys, cell.life.passed()), (1, vec![1]), "the later one is not durable");
    let passed = |ack: Ack, cell: &Cell| {
        let (_, log) = cell.life.lanes.logs().next().expect("a lane");
        log.passed(ack.level(), 2)
    };
    assert!(passed(Ack::Os, &cell) && !passed(Ack::Disk, &cell));
    let flushed = cell.life.tier.flush_through(NOW).expect("nothing fails");
    assert!(flushed.keys == 0 && cell.life.tier.writes_through());
    cell.sync();
    assert!(passed(Ack::Disk, &cell) && !passed(Ack::Backend, &cell));
    let flushed = cell.life.tier.flush_through(NOW).expect("nothing fails");
    assert_eq!((flushed.keys, cell.life.passed()), (1, vec![2]), "it is durable now");
    assert!(!cell.life.tier.writes_through() && cell.life.tier.dirty() == 0);
}

#[test]
fn a_key_that_changes_between_all_syncs_is_below_as_of_the_sync_before() {
    let mut cell = Cell::new(Config { ack: Ack::Backend, ..Config::shortest(1) }, 2);
    cell.set(1, 100).expect("there is room");
    for round in 0..5 {
        let item = cell.keys[0].known().cloned().flatten();
        match item.filter(|_| round % 2 == 1) {
            Some(item) => {
                let of = (&mut cell.given, &mut cell.keys[0]);
                cell.life.touch(of.0, of.1, &item, (NOW.expiry_s + 50, false)).expect("room");
                cell.life.sink.end_batch();
            }
            None => cell.set(0, 100).expect("there is room"),
        }
        cell.sync();
        let durable = cell.life.lanes.logs().map(|(_, log)| log.end()).collect::<Vec<_>>();
        // What is not durable is newer.
        cell.set(0, 100).expect("there is room");
        cell.life.tier.flush_through(NOW).expect("nothing fails");
        assert_eq!(cell.life.passed(), durable, "round {round}: no later change holds it up");
        cell.check();
    }
    // A key that is changed no more is below in the end.
    cell.life.drain(NOW).expect("nothing fails");
    cell.check();
}

#[test]
fn where_changes_are_written_through_the_log_keeps_nothing_that_is_durable() {
    let mut cell = Cell::new(Config { ack: Ack::Backend, ..Config::shortest(1) }, 4);
    for set in 0..40 {
        cell.set(set % 4, 10_000).expect("there is room");
        cell.sync();
        cell.life.tier.flush_through(NOW).expect("nothing fails");
    }
    assert!(!cell.life.tier.presses(), "each batch would have the journal synced");
}

#[test]
fn a_ceiling_that_is_written_after_a_failed_write_takes_no_change_for_written() {
    let mut cell = Cell::new(Config { ack: Ack::Os, ..Config::shortest(1) }, 2);
    (0..2).for_each(|_| cell.sync());
    cell.set(0, 100).expect("there is room");
    let slice = cell.keys[0].slice;
    cell.life.skip_versions(slice, 40_000);
    let mut given = std::mem::take(&mut cell.given);
    let value = (b"2:".to_vec(), Facts::default());
    cell.life.set(&mut given, &mut cell.keys[0], value).expect("there is room");
    cell.given = given;
    cell.life.sink.end_batch();
    // The write that the sync itself makes.
    cell.disk.fail_after(0, Fault::Write);
    cell.sync();
    cell.check();
    assert_eq!(cell.life.tier.report().repairs, 1);
    cell.begin_again();
    cell.check();
    cell.life.drain(NOW).expect("nothing fails");
    cell.check();
}

#[test]
fn a_segment_that_is_gone_or_has_no_head_is_missed() {
    let mut cell = Cell::new(Config::shortest(1), 12);
    for set in 0..150 {
        cell.set(set % 12, 19_000).unwrap_or(());
        cell.sync();
        if set == 40 {
            cell.life.tier.flush(NOW, true).expect("nothing fails");
        }
    }
    cell.end();
    let names = segments(&cell.disk);
    let begins = |disk: &SimDisk, config: &Config, given: &Given| {
        let backend = cell.backend.copy(disk.clone());
        match begin((disk, &backend), config, given) {
            Ok(life) => cell.keys.iter().all(|key| {
                let found = life.load(key, NOW).expect("nothing fails");
                key.clone().check(&found, NOW).is_ok()
            }),
            Err(TierError::Journal(_)) => false,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(begins(&cell.disk.copy(), &cell.config, &cell.given), "nothing is gone");
    let used: Vec<_> = names.iter().filter(|name| is_used(&cell.disk, name)).collect();
    assert!(used.len() > 2, "{used:?}");
    let mut missed = 0;
    for name in &used {
        for is_gone in [true, false] {
            let disk = cell.disk.copy();
            match is_gone {
                true => tier::Disk::remove(&disk, name).expect("it is there"),
                false => disk.flip(name, 8 * 20),
            }
            match begin((&disk, &cell.backend.copy(disk.clone())), &cell.config, &Given::new()) {
                Err(TierError::Journal(_)) => missed += 1,
                Err(error) => panic!("{error}"),
                Ok(_) => assert!(begins(&disk, &cell.config, &cell.given), "{name} was lost"),
            }
        }
    }
    assert!(missed > 2, "{missed} of {used:?}");
    // All of them.
    let disk = cell.disk.copy();
    names.iter().for_each(|name| tier::Disk::remove(&disk, name).expect("it is there"));
    let begun = begin((&disk, &cell.backend.copy(disk.clone())), &cell.config, &Given::new());
    assert!(matches!(begun, Err(TierError::Journal(_))), "versions would be given twice");
    // Where that is wanted, it goes on above all versions that were given.
    let config = Config { salvages: true, ..cell.config };
    let backend = cell.backend.copy(disk.clone());
    begin((&disk, &backend), &config, &cell.given).expect("it begins again");
    begin((&disk, &backend), &cell.config, &cell.given).expect("it is whole");
}

#[test]
fn a_head_that_cannot_be_read_costs_no_record_where_the_journal_is_salvaged() {
    let mut cell = Cell::new(Config::shortest(1), 12);
    for set in 0..100 {
        cell.set(set % 12, 19_000).unwrap_or(());
        cell.sync();
    }
    cell.end();
    let names = segments(&cell.disk);
    for name in names.iter().filter(|name| is_used(&cell.disk, name)) {
        let disk = cell.disk.copy();
        disk.flip(name, 8 * 20);
        let backend = cell.backend.copy(disk.clone());
        let config = Config { salvages: true, ..cell.config };
        let life = begin((&disk, &backend), &config, &cell.given).expect("it passes over that");
        for key in &cell.keys {
            let found = life.load(key, NOW).expect("nothing fails");
            key.clone().check(&found, NOW).unwrap_or_else(|what| panic!("{name}: {what}"));
        }
        drop(life);
        disk.kill();
        begin((&disk, &backend), &cell.config, &cell.given).expect("it is whole then");
    }
}

#[test]
fn a_batch_that_has_changed_costs_a_salvage_nothing_that_comes_after_it() {
    let mut cell = Cell::new(Config::shortest(1), 40);
    for key in 0..40 {
        // A batch of its own, which says nothing of those before it.
        cell.set(key, 1_000).expect("there is room");
        cell.life.tier.write();
    }
    cell.sync();
    cell.disk.kill();
    let config = Config { salvages: true, ..cell.config };
    let mut least = 40;
    for name in segments(&cell.disk).iter().filter(|name| is_used(&cell.disk, name)) {
        let disk = cell.disk.copy();
        // Amid the batches, which come last.
        let last = disk.bytes_of(name).iter().rposition(|byte| *byte != 0).unwrap_or(0);
        disk.flip(name, 8 * last.saturating_sub(20_000).max(8) as u64);
        let backend = cell.backend.copy(disk.clone());
        let life = begin((&disk, &backend), &config, &cell.given).expect("it passes over that");
        let is_there = |key: &&KeyModel| life.load(key, NOW).expect("nothing fails").is_some();
        least = least.min(cell.keys.iter().filter(is_there).count());
    }
    assert_eq!(least, 39, "that of the one batch is lost");
}

#[test]
fn what_the_disk_does_not_read_at_once_costs_a_salvage_nothing_more() {
    let mut cell = Cell::new(Config::shortest(1), 12);
    for set in 0..60 {
        cell.set(set % 12, 19_000).unwrap_or(());
        cell.sync();
    }
    cell.end();
    let config = Config { salvages: true, ..cell.config };
    let mut refused = 0;
    // The first one is of the name of the journal.
    for call in 1..40 {
        let disk = cell.disk.copy();
        let backend = cell.backend.copy(disk.clone());
        disk.fail_after(call, Fault::Read);
        refused += u64::from(begin((&disk, &backend), &cell.config, &Given::new()).is_err());
        let disk = cell.disk.copy();
        let backend = cell.backend.copy(disk.clone());
        disk.fail_after(call, Fault::Read);
        let life = begin((&disk, &backend), &config, &cell.given)
            .unwrap_or_else(|error| panic!("read {call}: {error}"));
        if disk.is_to_fail() {
            break;
        }
        for key in &cell.keys {
            let found = life.load(key, NOW).expect("it is read");
            key.clone().check(&found, NOW).unwrap_or_else(|what| panic!("read {call}: {what}"));
        }
    }
    assert!(refused > 3, "{refused}");
}

#[test]
fn a_segment_that_cannot_be_made_ready_is_replaced_by_another() {
    let mut repairs = 0;
    for fault in [Fault::Write, Fault::Sync, Fault::SyncDirectory] {
        for call in 0..8 {
            let mut cell = Cell::new(Config::shortest(1), 12);
            (0..2).for_each(|_| cell.sync());
            let bytes = cell.life.tier.report().journal_bytes;
            for set in 0.. {
                cell.set(set % 12, 19_000).expect("there is room");
                if cell.life.tier.report().journal_bytes > bytes {
                    break;
                }
                cell.sync();
            }
            // One that was ready is in use: the next sync makes another one ready.
            cell.disk.fail_after(call, fault);
            (0..3).for_each(|_| cell.sync());
            let report = cell.life.tier.report();
            assert!(report.failure.is_none(), "{call}: {report:?}");
            repairs += report.repairs;
            cell.check();
            cell.begin_again();
            cell.check();
        }
    }
    assert_eq!(repairs, 4, "the head, its syncs, and the name are refused once each");
}

#[test]
fn a_machine_that_stops_while_a_journal_is_salvaged_is_asked_again() {
    let mut cell = Cell::new(Config::shortest(1), 12);
    for key in 0..12 {
        cell.set(key, 300).expect("there is room");
        cell.sync();
    }
    cell.end();
    cell.disk.flip("segment-00000", 8 * 853_000);
    let config = Config { salvages: true, ..cell.config };
    let mut asked = 0;
    for calls in 0..200 {
        let disk = cell.disk.copy();
        let backend = cell.backend.copy(disk.clone());
        disk.stop_after(calls);
        let has_stopped = begin((&disk, &backend), &config, &Given::new()).is_err();
        disk.cut_power(&mut Rng::new(calls, 1));
        match begin((&disk, &backend), &cell.config, &cell.given) {
            Err(TierError::Journal(_)) => asked += 1,
            Err(error) => panic!("after {calls}: {error}"),
            Ok(_) => break,
        }
        assert!(has_stopped, "after {calls}: a salvaged journal is refused");
        begin((&disk, &backend), &config, &cell.given).expect("it is asked again");
    }
    assert!(asked > 5, "{asked}");
}

#[test]
fn changes_that_are_not_journaled_do_not_use_up_the_room_of_those_that_are() {
    let mut cell = Cell::new(Config { ack: Ack::Os, ..Config::shortest(1) }, 2);
    for vivified in 0..400_000 {
        let done = cell.life.vivify(&mut cell.given, &cell.keys[vivified % 2]);
        assert_eq!(done, Ok(()), "after {vivified}");
        if vivified % 100 == 0 {
            cell.life.sink.end_batch();
            cell.sync();
        }
    }
    cell.set(0, 100).expect("there is room");
}

#[test]
fn what_the_disk_has_refused_is_removed_and_replaced() {
    let mut cell = Cell::new(Config::shortest(1), 12);
    for round in 0..100 {
        (0..4).for_each(|key| cell.set(key, 5_000).expect("there is room"));
        cell.disk.fail_after(0, if round % 3 == 0 { Fault::Write } else { Fault::Sync });
        cell.set(5, 5_000).expect("there is room");
        cell.sync();
        cell.life.drain(NOW).expect("nothing fails");
    }
    let report = cell.life.tier.report();
    assert!(report.failure.is_none() && report.repairs >= 60, "{report:?}");
    let names = tier::Disk::list(&cell.disk).expect("it is a list");
    assert!(names.len() < 40, "{names:?}");
    cell.begin_again();
    cell.check();
}

#[test]
fn what_could_not_be_written_again_is_promised_to_nobody() {
    let (mut failed, syncs) = (0, 10);
    for call in 0..syncs {
        let mut cell = Cell::new(Config { ack: Ack::Os, ..Config::shortest(1) }, 4);
        (0..2).for_each(|key| cell.set(key, 300).expect("there is room"));
        (0..2).for_each(|_| cell.sync());
        cell.disk.fail_after(0, Fault::Write);
        (0..4).for_each(|key| cell.set(key, 100).expect("there is room"));
        cell.disk.fail_after(call, Fault::Sync);
        (0..3).for_each(|_| cell.sync());
        failed += u64::from(cell.life.has_failed());
        cell.end();
        cell.begin_whole(call);
    }
    assert!((1..syncs).contains(&failed), "{failed}");
}

/// The segments say whose they are.
#[test]
fn a_journal_whose_name_is_lost_is_brought_below_where_that_is_wanted() {
    for harm in ["remove", "change", "empty"] {
        let mut cell = Cell::new(Config::shortest(2), 9);
        (0..9).for_each(|key| cell.set(key, 100).expect("there is room"));
        cell.sync();
        cell.end();
        let disk: Arc<dyn tier::Disk> = Arc::new(cell.disk.clone());
        match harm {
            "remove" => disk.remove("journal").expect("it is there"),
            "change" => cell.disk.flip("journal", 9),
            _ => disk.open("journal").and_then(|it| it.set_bytes(0)).expect("it is there"),
        }
        let on = (&cell.disk, &cell.backend);
        let refused = begin(on, &cell.config, &cell.given).err().expect("it has no name");
        let text = refused.to_string();
        assert!(text.contains("the file journal") && text.contains("--tier-salvage"), "{text}");
        let config = Config { salvages: true, ..cell.config };
        cell.life = begin(on, &config, &cell.given).expect("its segments are there");
        assert_eq!(cell.life.tier.dirty(), 0, "all of it is below");
        cell.check();
        cell.begin_again();
        cell.check();
    }
}

#[test]
fn what_is_left_of_a_corrupt_journal_is_brought_below_where_that_is_wanted() {
    let mut cell = Cell::new(Config::shortest(1), 60);
    for key in 0..60 {
        cell.set(key, 10 + key * 40).expect("there is room");
        cell.sync();
    }
    let set = cell.keys.clone();
    cell.life.delete(&mut cell.given, &mut cell.keys[1]).expect("there is room");
    cell.life.sink.end_batch();
    cell.sync();
    cell.end();
    let length = cell.disk.bytes_of("segment-00000").iter().rposition(|byte| *byte != 0);
    let (from, length) = (853_000, length.expect("it was written") as u64);
    let mut rng = Rng::new(5, 0);
    for flip in 0..40 {
        let bit = (from + rng.below(length - from)) * 8 + rng.below(8);
        let disk = cell.disk.copy();
        disk.flip("segment-00000", bit);
        let backend = cell.backend.copy(disk.clone());
        let on = (&disk, &backend);
        // What is corrupt may be the end, which nothing says was durable.
        let Err(TierError::Journal(_)) = begin(on, &cell.config, &cell.given) else { continue };
        let config = Config { salvages: true, ..cell.config };
        let mut lost = 0;
        for _ in 0..2 {
            let life = begin(on, &config, &cell.given).expect("it passes over what is corrupt");
            assert_eq!(life.tier.dirty(), 0, "all of it is below");
            lost = 0;
            for (now, before) in cell.keys.iter().zip(&set) {
                let found = life.load(now, NOW).expect("nothing fails");
                if now.clone().check(&found, NOW).is_err() {
                    lost += 1;
                    let was = before.last().1.as_ref();
                    assert!(found.is_none() || found.as_ref() == was, "flip {flip}: {found:?}");
                }
            }
            // Then the journal is whole: it begins without a word about what to pass over.
            drop(life);
            disk.kill();
        }
        begin(on, &cell.config, &cell.given).expect("it is whole");
        assert!(lost <= 1, "flip {flip} of bit {bit}: {lost} keys");
    }
}

#[test]
fn what_is_written_once_more_is_not_ended_before_it_is_durable() {
    // What one log holds takes more than one segment has left at a start.
    let seeds = number("CRASH_SEEDS").unwrap_or(0).max(60);
    for seed in 0..seeds {
        let mut rng = Rng::new(seed, 5);
        let mut cell = Cell::new(Config::shortest(3), 16);
        (0..16).for_each(|key| cell.set(key, 20_000).unwrap_or(()));
        cell.sync();
        cell.end();
        cell.keys.iter_mut().for_each(KeyModel::begin);
        for _ in 0..3 {
            cell.disk.stop_after(rng.below(24));
            drop(begin((&cell.disk, &cell.backend), &cell.config, &cell.given));
            cell.disk.cut_power(&mut rng);
        }
        cell.begin_whole(seed);
    }
}

#[test]
fn a_start_whose_first_states_are_not_whole_is_refused() {
    let mut cell = Cell::new(Config::shortest(1), 4);
    (0..4).for_each(|key| cell.set(key, 100).expect("there is room"));
    cell.sync();
    cell.end();
    // In the checkpoint of all slices, which stands first.
    cell.disk.flip("segment-00000", 8 * 1000);
    let begun = begin((&cell.disk, &cell.backend), &cell.config, &Given::new());
    assert!(matches!(begun, Err(TierError::Journal(_))), "versions would be given twice");
}

#[test]
fn a_segment_whose_first_batch_is_not_whole_is_not_taken_for_an_unused_one() {
    let mut cell = Cell::new(Config::shortest(1), 12);
    let used = |cell: &Cell| {
        let names = segments(&cell.disk);
        names.into_iter().filter(|name| is_used(&cell.disk, name)).collect::<Vec<_>>()
    };
    while used(&cell).len() < 2 {
        cell.set(0, 3_000).expect("there is room");
        cell.sync();
    }
    (1..12).for_each(|key| {
        cell.set(key, 100).expect("there is room");
        cell.sync();
    });
    let second = used(&cell).pop().expect("two are used");
    cell.end();
    cell.disk.flip(&second, 8 * 1000);
    let begun = begin((&cell.disk, &cell.backend), &cell.config, &Given::new());
    assert!(matches!(begun, Err(TierError::Journal(_))), "what was durable is missed");
}

#[test]
fn what_was_written_once_more_counts_as_no_write_that_was_cut_off() {
    let mut cell = Cell::new(Config::shortest(2), 3);
    for start in 0..4 {
        cell.set(0, 100).expect("there is room");
        cell.sync();
        cell.begin_again();
        assert_eq!(cell.life.torn, 0, "start {start}");
    }
}

#[test]
fn a_file_that_is_shorter_than_it_was_is_missed() {
    let mut cell = Cell::new(Config::shortest(1), 12);
    (0..12).for_each(|key| cell.set(key, 3_000).expect("there is room"));
    cell.sync();
    cell.end();
    let bytes = cell.disk.bytes_of("segment-00000");
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("it was written");
    let file = tier::Disk::open(&cell.disk, "segment-00000").expect("it is there");
    file.set_bytes(last as u64 - 20_000).expect("nothing fails");
    let begun = begin((&cell.disk, &cell.backend), &cell.config, &cell.given);
    let refused = begun.err().expect("some of it is gone").to_string();
    assert!(refused.contains("segment-00000 has"), "{refused}");
}

#[test]
fn what_a_journal_has_is_brought_into_a_new_database_where_that_is_wanted() {
    let mut cell = Cell::new(Config::shortest(1), 12);
    (0..12).for_each(|key| cell.set(key, 300).expect("there is room"));
    cell.sync();
    cell.end();
    cell.backend = SimBackend::new(cell.disk.clone());
    let begun = begin((&cell.disk, &cell.backend), &cell.config, &cell.given);
    let refused = begun.err().expect("what was below is gone");
    assert!(matches!(refused, TierError::OtherDatabase { .. }), "{refused}");
    let config = Config { salvages: true, ..cell.config };
    cell.life = begin((&cell.disk, &cell.backend), &config, &cell.given).expect("it is asked for");
    assert_eq!(cell.life.tier.dirty(), 0);
    cell.check();
    cell.begin_again();
    cell.check();
}

#[test]
fn a_bit_that_flips_in_what_was_durable_is_never_part_of_a_value() {
    let mut cell = Cell::new(Config::shortest(1), 12);
    for set in 0..60 {
        cell.set(set % 11, 10 + set * 40).expect("there is room");
        cell.sync();
    }
    let old = cell.disk.bytes_of("segment-00000");
    // After this one nothing says what was durable.
    cell.set(11, 100).expect("there is room");
    cell.sync();
    let new = cell.disk.bytes_of("segment-00000");
    let last = (0..old.len()).find(|at| old[*at] != new[*at]).expect("it was written") as u64;
    cell.end();
    let mut rng = Rng::new(11, 0);
    let (mut refused, mut unread, flips) = (0, 0, 100);
    for flip in 0..flips {
        // The head, both checkpoints, the END, and mostly records.
        let from = if flip % 4 == 0 { 0 } else { 852_000 };
        let bit = (from + rng.below(last - from)) * 8 + rng.below(8);
        let disk = cell.disk.copy();
        disk.flip("segment-00000", bit);
        let backend = cell.backend.copy(disk.clone());
        match begin((&disk, &backend), &cell.config, &Given::new()) {
            Err(TierError::Journal(_)) => refused += 1,
            Err(error) => panic!("bit {bit}: {error}"),
            Ok(life) => {
                for key in &cell.keys {
                    let found = life.load(key, NOW).expect("it was read at the start");
                    let right = key.clone().check(&found, NOW);
                    right.unwrap_or_else(|what| panic!("byte {}: {what}", bit / 8));
                }
            }
        }
        // While a cell runs.
        let (disk, config) = (cell.disk.copy(), cell.config);
        let backend = cell.backend.copy(disk.clone());
        let life = begin((&disk, &backend), &config, &cell.given).expect("nothing is wrong");
        disk.flip("segment-00000", bit);
        for key in &cell.keys {
            match life.load(key, NOW) {
                Ok(found) => {
                    let right = key.clone().check(&found, NOW);
                    right.unwrap_or_else(|what| panic!("byte {}: {what}", bit / 8));
                }
                Err(Unreadable::Error(_)) => unread += 1,
                Err(Unreadable::Again) => panic!("byte {}: it is never found out", bit / 8),
            }
        }
    }
    println!("{refused} of {flips} refused, {unread} not read");
    assert!(refused > flips * 9 / 10, "{refused}");
}

#[test]
fn what_is_not_durable_has_not_passed_a_level_that_keys_get_later() {
    for ack in [Ack::Disk, Ack::Backend] {
        let mut cell = Cell::new(Config { ack: Ack::Os, ..Config::shortest(1) }, 4);
        cell.set(0, 100).expect("there is room");
        cell.life.tier.want_rules(Rules::all(ack)).expect("all keys are kept");
        assert!(cell.life.tier.adopt_rules().is_some_and(|[_, now]| now.base() == ack));
        let (_, log) = cell.life.lanes.logs().next().expect("there is a lane");
        assert!(log.is_settled(Ack::Os.level()) && !log.is_settled(ack.level()), "{ack}");
        cell.sync();
        assert!(log.is_settled(ack.level()), "{ack}: it was durable before it was to be below");
    }
}

#[test]
fn what_waited_to_be_below_is_not_written_back_over_what_came_after_at_a_lower_level() {
    let mut cell = Cell::new(Config { ack: Ack::Backend, ..Config::shortest(1) }, 2);
    cell.set(0, 100).expect("there is room");
    cell.sync();
    cell.life.tier.want_rules(Rules::all(Ack::Os)).expect("all keys are kept");
    cell.life.tier.adopt_rules().expect("they are others");
    cell.set(0, 200).expect("there is room");
    cell.sync();
    assert_eq!(cell.life.tier.flush(NOW, true).expect("nothing fails").keys, 1);
    let item = cell.keys[0].known().cloned().flatten().expect("it was set");
    let of = (&mut cell.given, &mut cell.keys[0]);
    cell.life.touch(of.0, of.1, &item, (NOW.expiry_s + 50, false)).expect("there is room");
    cell.life.sink.end_batch();
    cell.sync();
    cell.life.tier.flush_through(NOW).expect("nothing fails");
    cell.check();
    cell.life.drain(NOW).expect("nothing fails");
    cell.begin_again();
    cell.check();
}

/// An item that has expired below is touched while it is removed there: by a request that began
/// before that.
#[test]
fn what_is_touched_while_it_is_removed_below_is_kept() {
    let mut cell = Cell::new(Config::shortest(1), 2);
    let expires = Facts { expiry_s: NOW.expiry_s + 10, ..Facts::default() };
    let item = (b"a value".to_vec(), expires);
    cell.life.set(&mut cell.given, &mut cell.keys[0], item).expect("there is room");
    cell.life.sink.end_batch();
    cell.sync();
    let later = base::Now { expiry_s: NOW.expiry_s + 20, ..NOW };
    let (tier, backend) = (cell.life.tier.clone(), cell.backend.clone());
    let (back, touched) = mpsc::channel();
    backend.meanwhile(move || {
        let item = cell.keys[0].known().cloned().flatten().expect("it was set");
        let (life, key) = (&mut cell.life, &mut cell.keys[0]);
        let raised = (NOW.expiry_s + 50, false);
        life.touch(&mut cell.given, key, &item, raised).expect("there is room");
        cell.life.sink.end_batch();
        cell.life.tier.write();
        back.send(cell).expect("it is waited for");
    });
    tier.flush(later, true).expect("nothing fails");
    let mut cell = touched.recv().expect("it was sent");
    cell.check();
    cell.sync();
    cell.life.drain(NOW).expect("nothing fails");
    cell.check();
}

#[test]
fn of_a_batch_that_is_written_back_in_several_rounds_nothing_stays_dirty() {
    let config = Config { journal_bytes: 64 << 20, ..Config::shortest(1) };
    let mut cell = Cell::new(config, 300);
    // Each key goes with those of its slice alone.
    cell.backend.group_by(1);
    for keys in (0..300).collect::<Vec<_>>().chunks(2) {
        for key in keys {
            let value = vec![b'v'; 19_000];
            let item = (value, Facts::default());
            cell.life.set(&mut cell.given, &mut cell.keys[*key], item).expect("there is room");
        }
        cell.life.sink.end_batch();
        cell.sync();
    }
    let (mut rounds, mut keys) = (0, 0);
    while let flushed = cell.life.tier.flush(NOW, true).expect("nothing fails")
        && flushed.keys > 0
    {
        assert!(flushed.keys < 10, "those of one slice in each round");
        (rounds, keys) = (rounds + 1, keys + flushed.keys);
    }
    assert!((200..=300).contains(&rounds), "{rounds} rounds");
    assert_eq!((keys, cell.life.tier.dirty()), (300, 0));
    cell.begin_again();
    cell.check();
}

#[test]
fn what_is_not_what_was_written_below_stops_the_keys_of_its_group_alone() {
    let mut cell = Cell::new(Config { ack: Ack::Backend, ..Config::shortest(1) }, 5);
    cell.backend.group_by(1);
    (0..5).for_each(|key| cell.set(key, 100).expect("there is room"));
    cell.sync();
    cell.backend.memory.fail_applies(1, BackendFault::Refused(Failure::Corrupt));
    cell.life.tier.flush_through(NOW).expect("some have landed");
    assert_eq!(cell.backend.memory.records().len(), 4, "all but those of one slice");
    cell.life.tier.flush_through(NOW).expect("it rests");
    let later = base::Now { mono_ns: NOW.mono_ns + 6_000_000_000, ..NOW };
    cell.life.tier.flush_through(later).expect("nothing fails any more");
    assert_eq!((cell.backend.memory.records().len(), cell.life.tier.dirty()), (5, 0));
    // A service that does not answer stops them all, and is not asked again at once.
    (0..5).for_each(|key| cell.set(key, 100).expect("there is room"));
    cell.sync();
    cell.backend.memory.fail_applies(1, BackendFault::Refused(Failure::Transient));
    cell.life.tier.flush_through(NOW).expect_err("none has landed");
    assert_eq!(cell.life.tier.dirty(), 5);
}

#[test]
fn what_is_not_what_was_written_below_stops_no_other_key_that_is_written_back_later() {
    // However long it takes until the next round.
    for (restarts, pause_s) in [(false, 0), (true, 0), (false, 60)] {
        let after = |seconds: u64| {
            let mono_ns = NOW.mono_ns + seconds * 1_000_000_000;
            base::Now { mono_ns, ..NOW }
        };
        let mut cell = Cell::new(Config::shortest(1), 5);
        cell.backend.group_by(1);
        (0..5).for_each(|key| cell.set(key, 100).expect("there is room"));
        cell.sync();
        cell.backend.memory.fail_applies(1, BackendFault::Refused(Failure::Corrupt));
        a_group_rests(&cell);
        for _ in 0..6 {
            cell.life.tier.flush(after(pause_s), true).expect("it rests, and the others go on");
        }
        assert_eq!((cell.backend.memory.records().len(), cell.life.tier.dirty()), (4, 1));
        cell.set(1, 200).expect("there is room");
        cell.sync();
        cell.check();
        if restarts {
            cell.begin_again();
            cell.check();
        }
        let later = after(pause_s + 6);
        for _ in 0..6 {
            cell.life.tier.flush(later, true).expect("nothing fails any more");
        }
        assert_eq!((cell.backend.memory.records().len(), cell.life.tier.dirty()), (5, 0));
        assert_eq!(cell.life.tier.resting(), None);
        cell.check();
    }
}

/// The group that is next cannot be written back, and rests.
fn a_group_rests(cell: &Cell) {
    let flushed = cell.life.tier.flush(NOW, true).expect("others may be written back");
    assert!(flushed.keys == 0 && flushed.has_more, "{flushed:?}");
    assert!(cell.life.tier.resting().is_some());
}

#[test]
fn a_lane_that_little_is_written_into_does_not_keep_what_others_have_written_back() {
    let mut cell = Cell::new(Config::shortest(2), 40);
    let is_first = |cell: &Cell, key: usize| {
        cell.life.lanes.lane_of(cell.keys[key].slice) == cell.life.lanes.lane_of(cell.keys[0].slice)
    };
    let filler = (0..40).find(|key| !is_first(&cell, *key)).expect("there are many keys");
    let mut last = 0;
    for round in 0..1_000 {
        cell.set(0, 100).expect("there is room for little");
        cell.sync();
        // It is not durable in this round, so its lane is never idle.
        cell.set(0, 100).expect("there is room for little");
        cell.life.tier.write();
        let stored = (0..20).filter(|_| cell.set(filler, 15_000).is_ok()).count();
        cell.life.tier.flush(NOW, true).expect("nothing fails");
        last += if round >= 900 { stored } else { 0 };
    }
    assert!(last > 0, "the journal is full, and stays so");
    cell.begin_again();
    cell.check();
}

#[test]
fn changes_are_taken_evenly_where_the_journal_is_nearly_full() {
    let config = Config { log_bytes: 4 << 20, entries: 10_000, ..Config::shortest(1) };
    let mut cell = Cell::new(config, 1_200);
    cell.backend.group_by(1);
    let (mut stored, mut next) = (Vec::new(), 0);
    for tick in 1..=80 {
        let now = base::Now { mono_ns: NOW.mono_ns + tick * 100_000_000, ..NOW };
        let mut count = 0;
        while cell.set(next % 1_200, 15_000).is_ok() {
            (next, count) = (next + 1, count + 1);
        }
        stored.push(count);
        // A segment becomes free every few rounds, in which few slices are written back.
        cell.life.tier.sync(now);
        (0..8).for_each(|_| _ = cell.life.tier.flush(now, true).expect("nothing fails"));
    }
    let last = &stored[40..];
    let some = last.iter().filter(|count| **count > 0).count();
    assert!(some * 10 > last.len() * 6, "in {some} of {}: {stored:?}", last.len());
}

#[test]
fn what_is_held_of_one_lane_says_nothing_of_another_one_where_the_rest_cannot_be_read() {
    let mut cell = Cell::new(Config::shortest(2), 40);
    cell.backend.group_by(1);
    let lane = |key: usize| cell.life.lanes.lane_of(cell.keys[key].slice).index();
    // The first lane has the first segment, and the other one the next.
    let (first, other): (Vec<_>, Vec<_>) = (0..40).partition(|key| lane(*key) == 0);
    let [held, touched, filler] = first[..3] else { panic!("there are many keys") };
    cell.set(touched, 100).expect("there is room");
    cell.life.drain(NOW).expect("nothing fails");
    cell.set(held, 100).expect("there is room");
    cell.sync();
    cell.set(other[0], 100).expect("there is room");
    cell.sync();
    cell.backend.memory.fail_applies(1, BackendFault::Refused(Failure::Corrupt));
    a_group_rests(&cell);
    // And a later one, in which there is more of the slice that rests.
    let bytes = cell.life.tier.report().journal_bytes;
    while cell.life.tier.report().journal_bytes == bytes {
        cell.set(filler, 15_000).expect("there is room");
        cell.sync();
    }
    cell.set(held, 200).expect("there is room");
    let item = cell.keys[touched].known().cloned().flatten().expect("it was set");
    let (life, key) = (&mut cell.life, &mut cell.keys[touched]);
    life.touch(&mut cell.given, key, &item, (NOW.expiry_s + 50, false)).expect("there is room");
    life.sink.end_batch();
    life.tier.write();
    cell.sync();
    cell.backend.memory.fail_gets(1, BackendFault::Refused(Failure::Transient));
    let fails = (0..9).any(|_| cell.life.tier.flush(NOW, true).is_err());
    assert!(fails, "what was touched cannot be read");
    cell.set(other[1], 100).expect("there is room");
    cell.sync();
    cell.begin_again();
    cell.check();
    cell.life.drain(NOW).expect("nothing fails any more");
    cell.check();
    assert!(cell.backend.memory.records().contains_key(&cell.keys[other[1]].key));
}

#[test]
fn lanes_that_are_idle_take_no_segments_while_another_one_cannot_be_written_back() {
    let mut cell = Cell::new(Config::shortest(2), 40);
    cell.backend.group_by(1);
    let is_first = |cell: &Cell, key: usize| {
        cell.life.lanes.lane_of(cell.keys[key].slice) == cell.life.lanes.lane_of(cell.keys[0].slice)
    };
    let other = (0..40).find(|key| !is_first(&cell, *key)).expect("there are many keys");
    let filler = (1..40).find(|key| is_first(&cell, *key)).expect("there are many keys");
    cell.set(0, 100).expect("there is room");
    cell.set(other, 100).expect("there is room");
    cell.sync();
    cell.backend.memory.fail_applies(1, BackendFault::Refused(Failure::Corrupt));
    a_group_rests(&cell);
    // Few segments are left, of which none can be freed.
    loop {
        let report = cell.life.tier.report();
        if report.journal_bytes * 2 > report.journal_bytes_max {
            break;
        }
        cell.set(filler, 15_000).expect("there is room");
        cell.sync();
    }
    let before = cell.life.tier.report().journal_bytes;
    for _ in 0..20 {
        cell.life.tier.flush(NOW, true).expect("it rests, and the others go on");
        cell.sync();
    }
    assert_eq!(cell.life.tier.report().journal_bytes, before);
}

/// What a barrier has ended is not read one by one where a group is gathered.
#[test]
fn what_a_barrier_has_ended_is_dropped_without_being_read() {
    let config = Config { journal_bytes: 64 << 20, ..Config::shortest(1) };
    let mut cell = Cell::new(config, 500);
    cell.backend.group_by(SLICES);
    for key in 0..500 {
        cell.set(key, 100).expect("there is room");
        cell.sync();
    }
    cell.life.flush_all(&mut cell.keys, SliceRange::ALL).expect("there is room");
    cell.life.sink.end_batch();
    cell.set(0, 100).expect("there is room");
    cell.sync();
    let before = cell.disk.reads();
    let flushed = cell.life.tier.flush(NOW, true).expect("nothing fails");
    assert_eq!((flushed.keys, cell.life.tier.dirty()), (1, 0));
    let reads = cell.disk.reads() - before;
    assert!(reads < 50, "{reads} reads");
}

#[test]
fn what_stands_after_a_gap_does_not_count_where_all_before_the_gap_is_free() {
    for seed in 0..40 {
        let mut cell = Cell::new(Config { ack: Ack::Os, ..Config::shortest(1) }, 8);
        cell.set(0, 100).expect("there is room");
        // Few segments are left, so the lane begins another one, and all before it is free.
        for _ in 0..10 {
            cell.life.flush_later(NOW.expiry_s + 100).expect("there is room");
            cell.life.sink.end_batch();
            cell.sync();
        }
        cell.life.drain(NOW).expect("nothing fails");
        let durable = cell.life.passed_at(Ack::Disk)[0];
        cell.set(0, 200).expect("there is room");
        let bytes = cell.life.tier.report().journal_bytes;
        // The states of all slices are written, for which the segment has no room.
        (0..2).for_each(|_| cell.life.flush_later(NOW.expiry_s + 100).expect("there is room"));
        cell.life.sink.end_batch();
        cell.life.tier.write();
        assert!(cell.life.tier.report().journal_bytes > bytes, "it has begun another one");
        let item = cell.keys[0].last().1.clone().expect("it was set");
        let (given, key) = (&mut cell.given, &mut cell.keys[0]);
        let how = (NOW.expiry_s + 50, false);
        cell.life.touch(given, key, &item, how).expect("there is room");
        cell.life.sink.end_batch();
        cell.life.tier.write();
        cell.keys.iter_mut().for_each(|key| key.kill(durable, durable));
        cell.disk.cut_power(&mut Rng::new(seed, 9));
        cell.keys.iter_mut().for_each(KeyModel::cut_power);
        cell.begin_whole(seed);
        cell.life.drain(NOW).expect("nothing fails");
        cell.check();
    }
}

#[test]
fn flushes_of_all_do_not_fill_the_journal_for_good() {
    for lanes in [1, 3] {
        for is_later in [false, true] {
            let mut cell = Cell::new(Config::shortest(lanes), 4);
            for flush in 0..60 {
                // It may be full, as for any change.
                let _ = cell.set(flush % 4, 100);
                for _ in 0..3 {
                    let _ = match is_later {
                        true => cell.life.flush_later(NOW.expiry_s + 100),
                        false => cell.life.flush_all(&mut cell.keys, SliceRange::ALL),
                    };
                }
                cell.life.sink.end_batch();
                cell.life.tier.write();
                cell.sync();
            }
            let report = cell.life.tier.report();
            assert!(report.journal_bytes * 5 > report.journal_bytes_max * 4, "{report:?}");
            cell.life.drain(NOW).unwrap_or_else(|what| panic!("{lanes}, {is_later}: {what}"));
            cell.set(0, 100).expect("there is room");
            cell.check();
            cell.begin_again();
            cell.check();
        }
    }
}

#[test]
fn what_an_earlier_start_had_durable_is_missed_wherever_it_is_broken() {
    let mut cell = Cell::new(Config::shortest(2), 24);
    for set in 0..120 {
        cell.set(set % 24, 15_000).unwrap_or(());
        cell.sync();
    }
    let names = segments(&cell.disk);
    let used: Vec<_> = names.into_iter().filter(|name| is_used(&cell.disk, name)).collect();
    assert!(used.len() > 2, "{used:?}");
    // This start says up to where the one before it counts.
    cell.begin_again();
    cell.end();
    let mut refused = 0;
    for name in &used {
        let last = cell.disk.bytes_of(name).iter().rposition(|byte| *byte != 0).unwrap_or(0);
        for byte in [20, 600, last - 100] {
            let disk = cell.disk.copy();
            disk.flip(name, byte as u64 * 8);
            let backend = cell.backend.copy(disk.clone());
            match begin((&disk, &backend), &cell.config, &cell.given) {
                Err(TierError::Journal(_)) => refused += 1,
                Err(error) => panic!("{error}"),
                Ok(life) => {
                    for key in &cell.keys {
                        let found = life.load(key, NOW).expect("it was read at the start");
                        let right = key.clone().check(&found, NOW);
                        right.unwrap_or_else(|what| panic!("byte {byte} of {name}: {what}"));
                    }
                }
            }
        }
    }
    assert!(refused > used.len() * 2, "{refused} of {used:?}");
}
