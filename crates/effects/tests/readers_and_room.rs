//! What readers hold stays, what they grant is not exceeded, and who is slow is named.
#![cfg(not(any(loom, shuttle)))]

mod common;

use base::{Change, Effect, EffectSink, Facts, Refused, Removal, Space, Value, Version};
use common::{Cell, LEVEL, holder, join_level, slice, watch};
use effects::{Batch, Entry, FellOut, JoinError, Joining, Level, Mark, Part, READERS_MAX, Who};

/// Fills the log with changes of 100 bytes until one is refused. Returns how many there were.
fn fill(cell: &Cell) -> u64 {
    let mut sink = cell.sink();
    for count in 0..1_000_000 {
        match cell.put(&mut sink, 0, &[7; 100]) {
            Ok(_) => {}
            Err(why) => {
                assert_eq!(why, Refused::Full);
                return count;
            }
        }
    }
    panic!("the log has no bound");
}

#[test]
fn a_full_log_refuses_until_what_is_held_has_passed() {
    let cell = Cell::new(1, 1, 1);
    let log = cell.log();
    let reader = join_level(log);
    let first = fill(&cell);
    assert!(first * 100 > log.capacity_bytes() / 2, "{first}");
    assert_eq!((log.end(), log.first()), (first, 1));
    assert_eq!((log.stuck(), log.slowest(LEVEL)), (Some(Who::Journal), Some(Who::Journal)));
    log.pass(reader, Mark::Written, first);
    assert_eq!(fill(&cell), 0, "it is the other mark that holds");
    log.pass(reader, Mark::Durable, first);
    assert_eq!((log.used_bytes(), log.stuck()), (0, None));
    assert_eq!(fill(&cell), first);
}

/// Above a journal, which keeps removals, touches and barriers, too.
#[test]
fn what_clients_ask_for_waits_for_room_where_all_of_that_spends_and_evictions_do_not() {
    for all_spend in [false, true] {
        let cell = Cell::new(1, 1, 1);
        if all_spend {
            cell.lanes.have_all_spend();
        }
        let (log, grants) = (cell.log(), Some(10_000));
        let holds = Some(Mark::Durable);
        let joining = Joining { who: Who::Journal, from: None, holds, grants };
        let reader = log.join(&joining).expect("there is a place");
        let may = |change| {
            let mut sink = cell.sink();
            cell.change(&mut sink, 0, change, None).is_ok()
        };
        let removal = Change::Remove(Removal::Deleted);
        let of_memory = [Removal::Evicted, Removal::Expired].map(Change::Remove);
        let asked_for = [removal, Change::Touch(60, None)];
        assert!(asked_for.iter().chain(&of_memory).all(|it| may(*it)));
        let charge = cell.sink().charge_of(slice(0), &Effect { key: b"key", change: removal });
        let spent = if all_spend { 2 * charge } else { 0 };
        assert_eq!((log.spent(), log.left()), (spent, 10_000 - spent));
        assert_eq!(log.room_after(reader, 0), Some(10_000));
        assert_eq!(log.room_after(reader, 3), Some(10_000 - spent));
        log.grant_after(reader, log.end(), 0);
        assert_eq!(asked_for.map(may), [!all_spend; 2]);
        assert_eq!(of_memory.map(may), [true; 2]);
        let mut sink = cell.sink();
        assert_eq!(cell.flush(&mut sink).is_ok(), !all_spend);
        let (lane, _) = cell.lanes.logs().next().expect("there is one");
        assert!(sink.other(lane, 200, b"written back", false).is_ok());
    }
}

#[test]
fn what_goes_to_all_logs_goes_to_none_where_one_is_full() {
    let cell = Cell::new(2, 1, 1);
    let readers: Vec<_> = cell.lanes.logs().map(|(_, log)| join_level(log)).collect();
    let mut sink = cell.sink();
    // Not the first of them, to which it goes first.
    let (lane, log) = cell.lanes.logs().nth(1).expect("there are two");
    while sink.other(lane, 200, &[7; 200], true).is_ok() {}
    let ends = || cell.lanes.logs().map(|(_, log)| log.end()).collect::<Vec<_>>();
    let mut places = Vec::new();
    // There is a little more room for such entries, until there is none.
    while sink.other_in_all(200, &[1; 200], &mut places).is_ok() {}
    let full = ends();
    assert!(full[1] > full[0], "{full:?}: only one of them is full");
    assert_eq!(places.len() as u64, 2 * full[0]);
    log.pass(readers[1], Mark::Written, full[1]);
    log.pass(readers[1], Mark::Durable, full[1]);
    assert_eq!(sink.other_in_all(200, &[1; 200], &mut places), Ok(()));
    assert_eq!(ends(), [full[0] + 1, full[1] + 1]);
}

#[test]
fn nothing_is_freed_that_a_reader_holds() {
    let cell = Cell::new(1, 1, 1);
    let (log, mut sink) = (cell.log(), cell.sink());
    let reader = log.join(&holder()).expect("there is a place");
    let mut batch = Batch::new(1000);
    let mut read = 0;
    for number in 0..20_000_u32 {
        cell.put(&mut sink, 0, &number.to_le_bytes()).expect("the reader is fast");
        if number % 100 == 99 {
            sink.end_batch();
            while read < log.end() {
                log.read(reader, read + 1, &mut batch).expect("it holds them");
                for record in batch.records() {
                    let Entry::Change { effect, .. } = record.entry else { panic!("a change") };
                    let Change::Put(value, _) = effect.change else { panic!("a put") };
                    let mut bytes = Vec::new();
                    value.append_to(&mut bytes);
                    assert_eq!(bytes, (record.position as u32 - 1).to_le_bytes());
                }
                read = batch.next() - 1;
                log.pass(reader, Mark::Durable, read);
            }
        }
    }
    assert_eq!(read, 20_000);
}

/// Whether it reads on or goes back, with short batches or long ones.
#[test]
fn a_reader_finds_its_place_wherever_it_reads_next() {
    let cell = Cell::new(1, 1, 1);
    let (log, mut sink) = (cell.log(), cell.sink());
    let reader = log.join(&holder()).expect("there is a place");
    let other = log.join(&holder()).expect("there is a place");
    let put = |number: u64| {
        let value = vec![number as u8; number as usize % 90];
        cell.put(&mut sink, 0, &value).is_ok()
    };
    let numbers = (1..).map(put).take_while(|is_put| *is_put).count() as u64;
    assert!(numbers > 100, "{numbers}");
    let mut batches = [Batch::new(300), Batch::new(5000)];
    for round in 0..2000_u64 {
        let (from, size) = (1 + round * 7919 % numbers, round as usize % 2);
        let batch = &mut batches[size];
        let mut next = from;
        for reader in [reader, reader, other, reader] {
            log.read(reader, next, batch).expect("it holds them");
            for record in batch.records() {
                let Entry::Change { effect, .. } = record.entry else { panic!("a change") };
                let Change::Put(value, _) = effect.change else { panic!("a put") };
                let mut bytes = Vec::new();
                value.append_to(&mut bytes);
                let number = record.position;
                assert_eq!(bytes, vec![number as u8; number as usize % 90]);
                assert_eq!(number, next);
                next += 1;
            }
            assert!(next == batch.next() && (!batch.is_empty() || next == numbers + 1));
        }
    }
}

#[test]
fn one_that_may_fall_out_delays_nobody_and_learns_it() {
    let cell = Cell::new(1, 1, 1);
    let (log, mut sink) = (cell.log(), cell.sink());
    let watcher = log.join(&watch()).expect("there is a place");
    let mut batch = Batch::new(1000);
    cell.put(&mut sink, 0, b"seen").expect("empty");
    log.read(watcher, 1, &mut batch).expect("it is there");
    assert_eq!((batch.first(), batch.next()), (1, 2));
    for _ in 0..10_000 {
        cell.put(&mut sink, 0, &[7; 100]).expect("nobody holds anything back");
    }
    assert!(log.used_bytes() <= log.capacity_bytes());
    assert_eq!(log.read(watcher, 2, &mut batch), Err(FellOut));
    assert!(batch.is_empty());
    assert_eq!(log.read(watcher, log.first(), &mut batch), Err(FellOut), "it lost some");
    log.leave(watcher);
    let again = Joining { from: Some(log.first()), ..watch() };
    let again = log.join(&again).expect("there is a place");
    log.read(again, log.first(), &mut batch).expect("it begins where entries are");
    assert_eq!(log.read(watcher, log.first(), &mut batch), Err(FellOut), "it is gone");
}

#[test]
fn puts_spend_what_is_granted_and_removals_do_not() {
    let cell = Cell::new(1, 1, 4);
    let (log, mut sink) = (cell.log(), cell.sink());
    let grants = |bytes| Joining { who: Who::Copy(7), grants: Some(bytes), ..holder() };
    let reader = log.join(&grants(10_000)).expect("there is a place");
    for _ in 0..300 {
        let value = Some(Value::Parts([b"v", b""]));
        let space = Space::Change { key_bytes: 3, value_bytes: 1, value };
        sink.reserve(slice(1), space).expect("what is not used is returned");
        cell.remove(&mut sink, 1).expect("there is room");
        sink.end_batch();
    }
    let granted = |bytes: u64| {
        let mut sink = cell.sink();
        let mut put = 0;
        while cell.put(&mut sink, 1, &[7; 200]).is_ok() {
            put += 200;
        }
        assert!(put < bytes + 200 && put >= bytes / 2, "{put} of {bytes}");
    };
    granted(10_000);
    assert_eq!(log.stuck(), Some(Who::Copy(7)));
    for _ in 0..100 {
        cell.remove(&mut sink, 1).expect("removals are free");
    }
    let touch = Change::Touch(5, None);
    cell.change(&mut sink, 1, touch, None).expect("so is a touch");
    // What a writer reserves for a change is more than the change takes.
    assert!(log.room_after(reader, log.end()).is_some_and(|room| room < 1_000));
    let spent = log.grant_after(reader, log.end(), 20_000);
    assert!(spent.is_some_and(|spent| spent > 10_000 - 1_000), "{spent:?}");
    granted(20_000);
    log.leave(reader);
    assert_eq!(log.grant_after(reader, log.end(), 1), None);
    cell.put(&mut sink, 1, &[7; 50]).expect("no reader has a limit");
}

#[test]
fn items_for_one_reader_spend_its_room_and_no_room_of_one_that_is_full() {
    let cell = Cell::new(1, 1, 4);
    let (log, mut sink) = (cell.log(), cell.sink());
    let join = |copy, bytes| {
        let joining = Joining { who: Who::Copy(copy), grants: Some(bytes), ..holder() };
        log.join(&joining).expect("there is a place")
    };
    let (full, learner) = (join(1, 4_000), join(2, 20_000));
    while cell.put(&mut sink, 1, &[7; 200]).is_ok() {
        sink.end_batch();
    }
    assert_eq!((log.stuck(), log.lacking()), (Some(Who::Copy(1)), 1 << full.slot()));
    let room = |reader| log.room_after(reader, log.end()).expect("it is there");
    let (none, before) = (room(full), room(learner));
    let mut emit = || {
        let item = (Value::Parts([&[8; 1_000], &[]]), Facts::default());
        sink.emit(learner, slice(1), b"key", item, Version::from_raw(1))
    };
    let count = (0..100).take_while(|_| emit().is_ok()).count() as u64;
    assert!(count >= before / 1_100 && count <= before / 1_000 + 1, "{count} of {before}");
    assert_eq!((room(full), room(learner)), (none, 0));
    assert_eq!(log.lacking(), 1 << full.slot() | 1 << learner.slot());
    assert_eq!(log.grant_after(learner, log.end(), 5_000), Some(log.spent()));
    emit().expect("it has granted more, whatever the last one took");
    log.leave(learner);
    let again = join(3, 8_000);
    assert_eq!(again.slot(), learner.slot());
    assert!(room(again) <= 8_000, "{:?}", room(again));
    assert_eq!(emit(), Err(Refused::Full), "it is gone");
    cell.remove(&mut sink, 1).expect("removals are free");
}

/// What is granted counts from a position, not from what was granted before: one entry may have
/// taken more than that.
#[test]
fn what_one_long_entry_took_beyond_its_room_is_not_taken_off_the_next() {
    let cell = Cell::new(1, 1, 4);
    let (log, mut sink) = (cell.log(), cell.sink());
    let grants = Joining { who: Who::Copy(7), grants: Some(4_000), ..holder() };
    let reader = log.join(&grants).expect("there is a place");
    cell.put(&mut sink, 1, &[7; 40_000]).expect("some room is left");
    sink.end_batch();
    assert_eq!(cell.put(&mut sink, 1, &[7; 200]), Err(Refused::Full));
    assert!(log.grant_after(reader, log.end(), 20_000).is_some());
    cell.put(&mut sink, 1, &[7; 200]).expect("it was granted");
    sink.end_batch();
    // The room that another stream was promised is void.
    assert!(log.grant_after(reader, log.end(), 300).is_some());
    assert_eq!(log.room_after(reader, log.end()), Some(300));
}

#[test]
fn an_item_for_a_reader_without_room_reserves_nothing() {
    let cell = Cell::new(1, 1, 16);
    let (log, mut sink) = (cell.log(), cell.sink());
    let none = Joining { grants: Some(0), ..holder() };
    let full = log.join(&none).expect("there is a place");
    let item = (Value::Parts([&[7; 50_000], &[]]), Facts::default());
    let emitted = sink.emit(full, slice(1), b"key", item, Version::from_raw(1));
    assert_eq!((emitted, log.used_bytes()), (Err(Refused::Full), 0));
}

#[test]
fn a_reader_joins_only_with_room_for_what_writers_hold() {
    let cell = Cell::new(1, 1, 4);
    let (log, mut sink) = (cell.log(), cell.sink());
    cell.put(&mut sink, 1, b"value").expect("empty");
    let grants = |bytes| Joining { grants: Some(bytes), ..holder() };
    let Err(JoinError::Grants(needed)) = log.join(&grants(100)) else {
        panic!("a worker has more")
    };
    assert!(needed > 100);
    assert!(log.join(&grants(needed)).is_ok());
    sink.end_batch();
    assert!(log.join(&grants(100)).is_ok(), "nothing is held");
}

#[test]
fn readers_are_few_and_begin_where_entries_are() {
    let cell = Cell::new(1, 1, 1);
    let (log, mut sink) = (cell.log(), cell.sink());
    let first = log.join(&holder()).expect("there is a place");
    cell.put(&mut sink, 0, b"v").expect("empty");
    for from in [0, 3] {
        let joining = Joining { from: Some(from), ..holder() };
        assert_eq!(log.join(&joining), Err(JoinError::Gone(1)), "{from}");
    }
    for _ in 1..READERS_MAX {
        log.join(&Joining { from: Some(1), ..holder() }).expect("there is a place");
    }
    assert_eq!(log.join(&holder()), Err(JoinError::TooMany));
    log.leave(first);
    let second = log.join(&holder()).expect("there is a place again");
    assert_eq!(second.slot(), first.slot());
    log.pass(first, Mark::Durable, 1);
    assert!(log.set_level(LEVEL, &[(second, Mark::Durable)]));
    assert!(!log.set_level(LEVEL, &[(first, Mark::Durable)]), "it is gone");
}

#[test]
fn a_level_is_the_lowest_of_its_marks() {
    let cell = Cell::new(1, 1, 1);
    let (log, mut sink) = (cell.log(), cell.sink());
    assert!(log.is_settled(LEVEL), "it needs nothing");
    let [one, two] = [0, 1].map(|_| log.join(&holder()).expect("there is a place"));
    let other = Level::new(0).expect("a level");
    assert!(log.set_level(LEVEL, &[(one, Mark::Written), (two, Mark::Durable)]));
    assert!(log.set_level(other, &[(one, Mark::Written)]));
    (0..5).for_each(|_| _ = cell.put(&mut sink, 0, b"v").expect("empty"));
    let rose = |reader, mark, position| {
        log.pass(reader, mark, position).iter().map(Level::index).collect::<Vec<_>>()
    };
    assert_eq!(rose(one, Mark::Written, 3), [0]);
    assert_eq!(rose(two, Mark::Written, 5), [0; 0]);
    assert_eq!(rose(two, Mark::Durable, 2), [3]);
    assert!(log.passed(LEVEL, 2) && !log.passed(LEVEL, 3));
    assert_eq!(rose(two, Mark::Durable, 1), [0; 0], "marks do not fall");
    assert_eq!(rose(two, Mark::Durable, 5), [3]);
    assert!(log.passed(LEVEL, 3) && !log.passed(LEVEL, 4), "the other mark is lower now");
    assert_eq!(log.slowest(LEVEL), Some(Who::Journal));
    assert_eq!(rose(one, Mark::Written, 6), [0; 0], "there is no sixth entry");
    assert_eq!(log.refusals().mark, 1);
    assert_eq!(log.leave(one).iter().map(Level::index).collect::<Vec<_>>(), [0, 3]);
    assert!(log.is_settled(LEVEL) && log.slowest(LEVEL).is_none());
    assert!(log.pass(two, Mark::Durable, 5).is_empty());
}

#[test]
fn an_item_of_a_walk_is_for_its_reader_alone() {
    let cell = Cell::new(1, 1, 1);
    let (log, mut sink) = (cell.log(), cell.sink());
    let learner = log.join(&watch()).expect("there is a place");
    let other = log.join(&watch()).expect("there is a place");
    let version = cell.put(&mut sink, 2, b"changed").expect("empty");
    let item = (Value::Parts([b"old", b" item"]), Facts::default());
    sink.emit(learner, slice(2), b"key", item, base::Version::from_raw(1)).expect("empty");
    assert_eq!(cell.lanes.last(slice(2)).1, version, "it is not a change");
    let is_item = |reader, expected: bool| {
        let mut batch = Batch::new(1000);
        log.read(reader, 1, &mut batch).expect("they are there");
        let entries: Vec<_> = batch.records().map(|record| record.entry).collect();
        assert_eq!(entries.len(), 2);
        assert_eq!(matches!(entries[1], Entry::Item { .. }), expected);
        assert_eq!(matches!(entries[1], Entry::Skipped), !expected);
    };
    is_item(learner, true);
    is_item(other, false);
    log.leave(learner);
    let next = log.join(&Joining { from: Some(1), ..watch() }).expect("in the same slot");
    assert_eq!(next.slot(), learner.slot());
    is_item(next, false);
}

#[test]
fn large_values_are_shared_and_freed_at_once() {
    let cell = Cell::new(1, 1, 4);
    let (log, mut sink) = (cell.log(), cell.sink());
    let reader = log.join(&holder()).expect("there is a place");
    let longest = cell.lanes.value_bytes_max() as usize;
    let value: Vec<u8> = (0..longest).map(|at| at as u8).collect();
    assert_eq!(cell.put(&mut sink, 0, &[&value[..], &value].concat()), Err(Refused::TooLarge));
    let mut batch = Batch::new(100);
    for round in 0..50 {
        cell.put(&mut sink, 0, b"small").expect("there is room");
        cell.put(&mut sink, 0, &value).expect("there is room");
        sink.end_batch();
        log.read(reader, log.end() - 1, &mut batch).expect("they are held");
        assert_eq!((batch.len(), batch.parts()[1].len()), (2, longest), "{round}");
        let last = batch.records().last().expect("two records");
        let mut bytes = Vec::new();
        last.entry.encode(&mut bytes);
        assert!(bytes.ends_with(&value));
        log.pass(reader, Mark::Durable, log.end());
        assert_eq!(log.used_bytes(), 0);
    }
}

#[test]
fn two_of_the_longest_values_fit() {
    let cell = Cell::new(1, 1, 4);
    let (log, mut sink) = (cell.log(), cell.sink());
    log.join(&holder()).expect("there is a place");
    let value = vec![7; cell.lanes.value_bytes_max() as usize];
    cell.put(&mut sink, 0, &value).expect("there is room");
    sink.end_batch();
    cell.put(&mut sink, 0, &value[..value.len() - 1_000]).expect("and for another one");
    assert_eq!(cell.put(&mut sink, 0, &value), Err(Refused::Full));
}

#[test]
fn a_sealed_log_takes_nothing_until_it_leads_again() {
    let cell = Cell::new(1, 1, 1);
    let (log, mut sink) = (cell.log(), cell.sink());
    let reader = join_level(log);
    cell.put(&mut sink, 0, b"v").expect("empty");
    assert_eq!((log.seal(), log.part()), (1, Part::Sealed));
    assert_eq!(cell.put(&mut sink, 0, b"v"), Err(Refused::Sealed));
    assert_eq!(cell.flush(&mut sink), Err(Refused::Sealed));
    assert_eq!(cell.version(0), 1, "nothing was stamped");
    assert!(log.pass(reader, Mark::Durable, 1).has(LEVEL), "readers go on");
    assert_eq!(log.lead(), 1);
    cell.put(&mut sink, 0, b"v").expect("it leads");
}

#[test]
fn room_goes_back_when_a_batch_ends_or_a_sink_is_dropped() {
    let cell = Cell::new(2, 2, 1);
    let (log, mut sink) = (cell.log(), cell.sink());
    let used = |entries: u64| assert!(log.used_bytes() < 100 * entries, "{}", log.used_bytes());
    cell.put(&mut sink, 0, b"v").expect("empty");
    assert!(log.used_bytes() > 100);
    assert_eq!(sink.last_appended(), sink.last_in(slice(0)));
    sink.end_batch();
    used(1);
    assert_eq!((sink.last_appended(), sink.last_in(slice(0))), (None, None));
    cell.put(&mut sink, 0, b"v").expect("room");
    drop(sink);
    used(2);
}
