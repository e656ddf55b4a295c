//! Every command in every spelling that memcached accepts, and what it means.

use memcache::{
    CrawlerCommand, Direction, Key, Limits, LruCommand, MetaArgs, MetaMode, Parsed, Request,
    SlabsCommand, Store, StoreVerb, Words, parse,
};

fn key(bytes: &[u8]) -> Key<'_> {
    Key::new(bytes).expect("keys in tests are short")
}

fn only(input: &[u8]) -> Request<'_> {
    match parse(input, &Limits::default()) {
        Parsed::Request { request, consumed } if consumed == input.len() => request,
        other => panic!("{}: {other:?}", String::from_utf8_lossy(input)),
    }
}

/// `line` parses to `want`, with `\r\n` and with `\n`, alone and with another request after it.
fn assert_reads(line: &str, want: Request<'_>) {
    for end in ["\r\n", "\n"] {
        let mut input = format!("{line}{end}").into_bytes();
        assert_eq!(only(&input), want, "{line}");
        let consumed = input.len();
        input.extend_from_slice(b"get next\r\n");
        assert_eq!(
            parse(&input, &Limits::default()),
            Parsed::Request { request: want, consumed },
            "{line}"
        );
    }
}

#[test]
fn retrieval() {
    let lines: [(&str, &[&[u8]], bool); 8] = [
        ("get a", &[b"a"], false),
        ("get  a ", &[b"a"], false),
        ("get a b  c", &[b"a", b"b", b"c"], false),
        ("get noreply", &[b"noreply"], false),
        ("get tab\there", &[b"tab\there"], false),
        ("get \u{1}\r\u{0}", &[b"\x01\r\0"], false),
        ("gets a", &[b"a"], true),
        ("gets a b", &[b"a", b"b"], true),
    ];
    for (line, want, want_cas) in lines {
        let input = format!("{line}\r\n").into_bytes();
        let Request::Get { keys, with_cas } = only(&input) else {
            panic!("{line} is no retrieval");
        };
        let keys: Vec<_> = keys.map(|key| key.expect("short").as_bytes()).collect();
        assert_eq!((&keys[..], with_cas), (want, want_cas), "{line}");
    }
    for (line, want_exptime, want_cas) in [
        ("gat 0 a b", 0, false),
        ("gat -1 a b", -1, false),
        ("gats 2147483647 a b", i64::from(i32::MAX), true),
    ] {
        let input = format!("{line}\r\n").into_bytes();
        let Request::Gat { exptime, keys, with_cas } = only(&input) else {
            panic!("{line} is no retrieval");
        };
        assert_eq!((exptime, keys.count(), with_cas), (want_exptime, 2, want_cas), "{line}");
    }
}

#[test]
fn storage() {
    let base = Store {
        verb: StoreVerb::Set,
        key: key(b"k"),
        flags: 0,
        exptime: 0,
        value: b"abc",
        noreply: false,
    };
    let cases = [
        ("set k 0 0 3", base),
        ("set  k  0  0  3  ", base),
        ("set k 4294967295 -1 3", Store { flags: u32::MAX, exptime: -1, ..base }),
        ("set k 7 4102444800 3", Store { flags: 7, exptime: 4_102_444_800, ..base }),
        ("set k 0 0 003", base),
        ("set k 0 0 3 noreply", Store { noreply: true, ..base }),
        ("set k 0 0 3 more noreply ", Store { noreply: true, ..base }),
        ("set k 0 0 3 more", base),
        ("add k 0 0 3", Store { verb: StoreVerb::Add, ..base }),
        ("replace k 0 0 3 noreply", Store { verb: StoreVerb::Replace, noreply: true, ..base }),
        ("append k 0 0 3", Store { verb: StoreVerb::Append, ..base }),
        ("prepend k 0 0 3", Store { verb: StoreVerb::Prepend, ..base }),
        ("cas k 0 0 3 18446744073709551615", Store { verb: StoreVerb::Cas(u64::MAX), ..base }),
        ("cas k 0 0 3 1 noreply", Store { verb: StoreVerb::Cas(1), noreply: true, ..base }),
    ];
    for (line, want) in cases {
        for end in ["\r\n", "\n"] {
            let input = format!("{line}{end}abc\r\n").into_bytes();
            assert_eq!(only(&input), Request::Store(want), "{line}");
        }
    }
    let binary = b"set k 1 2 7\r\n\r\n\0\xff\n\r \r\n";
    let want = Store { flags: 1, exptime: 2, value: b"\r\n\0\xff\n\r ", ..base };
    assert_eq!(only(binary), Request::Store(want));
    assert_eq!(only(b"set k 0 0 0\r\n\r\n"), Request::Store(Store { value: b"", ..base }));
}

#[test]
fn other_classic_commands() {
    let delete = |noreply| Request::Delete { key: key(b"k"), noreply };
    assert_reads("delete k", delete(false));
    assert_reads("delete k 0", delete(false));
    assert_reads("delete k 0 noreply", delete(true));
    assert_reads("delete k a b c d e", delete(false));
    assert_reads("delete noreply", Request::Delete { key: key(b"noreply"), noreply: true });
    let arith =
        |direction, delta, noreply| Request::Arith { key: key(b"k"), delta, direction, noreply };
    assert_reads("incr k 1", arith(Direction::Increment, 1, false));
    assert_reads(
        "incr k 18446744073709551615 noreply",
        arith(Direction::Increment, u64::MAX, true),
    );
    assert_reads("decr k 0", arith(Direction::Decrement, 0, false));
    let touch = |exptime, noreply| Request::Touch { key: key(b"k"), exptime, noreply };
    assert_reads("touch k 0", touch(0, false));
    assert_reads("touch k -5 noreply", touch(-5, true));
}

#[test]
fn administration() {
    let flush = |delay, noreply| Request::FlushAll { delay, noreply };
    assert_reads("flush_all", flush(None, false));
    assert_reads("  flush_all", flush(None, false));
    assert_reads("flush_all noreply", flush(None, true));
    assert_reads("flush_all 0", flush(Some(0), false));
    assert_reads("flush_all -1 noreply", flush(Some(-1), true));
    assert_reads("version", Request::Version);
    assert_reads("version noreply", Request::Version);
    assert_reads("quit", Request::Quit);
    assert_eq!(only(b"mn\r\n"), Request::MetaNoop);
    assert_reads("mn what ever", Request::MetaNoop);
    assert_reads("verbosity 1", Request::Verbosity { level: 1, noreply: false });
    assert_reads("verbosity 5 noreply", Request::Verbosity { level: 5, noreply: true });
    assert_reads("cache_memlimit 64", Request::CacheMemlimit { mebibytes: 64, noreply: false });
    assert_reads("shutdown", Request::Shutdown { graceful: false });
    assert_reads("shutdown graceful", Request::Shutdown { graceful: true });
    assert_reads("refresh_certs", Request::RefreshCerts { noreply: false });
    assert_reads("config get cluster", Request::ConfigCluster);
    for words in ["cellcycle map 7", "CELLCYCLE map 7", "CellCycle map 7"] {
        assert_reads(words, Request::CellCycle(Words::new(b" map 7")));
    }
    for (command, want) in [
        ("enable", CrawlerCommand::Enable),
        ("disable", CrawlerCommand::Disable),
        ("sleep 1000000", CrawlerCommand::Sleep { pause_us: 1_000_000 }),
        ("tocrawl 0", CrawlerCommand::ToCrawl { items: 0 }),
        ("crawl 1,2,3", CrawlerCommand::Crawl { classes: b"1,2,3" }),
        ("metadump all", CrawlerCommand::Metadump { classes: b"all" }),
        ("mgdump hash", CrawlerCommand::Mgdump { classes: b"hash" }),
    ] {
        assert_reads(&format!("lru_crawler {command}"), Request::LruCrawler(want));
    }
    for (words, command) in [
        ("reassign -1 4", SlabsCommand::Reassign { source: -1, target: 4 }),
        ("automove 2", SlabsCommand::Automove { level: 2 }),
        ("automove ratio 0.8", SlabsCommand::AutomoveRatio(0.8)),
        ("automove freeratio 0.005", SlabsCommand::AutomoveFreeRatio(0.005)),
        ("automove window 30", SlabsCommand::AutomoveWindow { samples: 30 }),
    ] {
        assert_reads(&format!("slabs {words}"), Request::Slabs { command, noreply: false });
    }
    let tune =
        LruCommand::Tune { hot_percent: 10, warm_percent: 25, hot_factor: 0.1, warm_factor: 2.0 };
    for (words, command) in [
        ("tune 10 25 0.1 2.0", tune),
        ("mode flat", LruCommand::Mode { segmented: false }),
        ("mode segmented", LruCommand::Mode { segmented: true }),
        ("temp_ttl 60", LruCommand::TempTtl { ttl_s: Some(60) }),
        ("temp_ttl -1", LruCommand::TempTtl { ttl_s: None }),
    ] {
        assert_reads(&format!("lru {words}"), Request::Lru { command, noreply: false });
    }
    for (line, want) in [
        ("stats", &[][..]),
        ("stats  items ", &[&b"items"[..]]),
        ("stats cachedump 1 2", &[b"cachedump", b"1", b"2"]),
    ] {
        let input = format!("{line}\r\n").into_bytes();
        let Request::Stats(args) = only(&input) else { panic!("{line} is a stats") };
        assert_eq!(args.collect::<Vec<_>>(), want);
    }
    let Request::Watch(mut args) = only(b"watch evictions\r\n") else { panic!("it is a watch") };
    assert_eq!(args.next(), Some(&b"evictions"[..]));
}

#[test]
fn meta_keys_and_flags() {
    let input = b"mg Zm9v b k v q t T-1 N30 R10 C5 E6 Oab u h l s f c\r\n";
    let Request::MetaGet(MetaArgs { key, flags }) = only(input) else { panic!("it is an mg") };
    assert_eq!(key.key(&mut [0; 250]).as_bytes(), b"foo");
    assert!(flags.quiet() && flags.wants_value() && flags.no_bump());
    assert_eq!((flags.ttl(), flags.vivify(), flags.recache()), (Some(-1), Some(30), Some(10)));
    assert_eq!((flags.cas(), flags.cas_new()), (Some(5), Some(6)));
    assert!(!flags.invalidate() && !flags.remove_value());

    let Request::MetaGet(MetaArgs { key, flags }) = only(b"mg  foo  P L  v \n") else {
        panic!("an mg")
    };
    assert_eq!((key.token(), key.is_binary(), flags.wants_value()), (&b"foo"[..], false, true));
    assert_eq!((flags.ttl(), flags.cas(), flags.delta()), (None, None, 1));

    let Request::MetaDelete(MetaArgs { flags, .. }) = only(b"md foo I x T60\r\n") else {
        panic!("an md")
    };
    assert!(flags.invalidate() && flags.remove_value());
    assert_eq!(flags.ttl(), Some(60));

    for (line, want) in [
        ("ma k", Direction::Increment),
        ("ma k MI", Direction::Increment),
        ("ma k M+", Direction::Increment),
        ("ma k MD", Direction::Decrement),
        ("ma k M-", Direction::Decrement),
        ("ma k MDecrement", Direction::Decrement),
    ] {
        let input = format!("{line} N0 J13 D30\r\n").into_bytes();
        let Request::MetaArith { direction, args } = only(&input) else { panic!("an ma") };
        let flags = args.flags;
        assert_eq!((direction, flags.delta(), flags.initial()), (want, 30, 13), "{line}");
    }
    for (line, want) in
        [("me foo\r\n", &b"foo"[..]), ("me Zm9v b\r\n", b"foo"), ("me k v\r\n", b"k")]
    {
        let Request::MetaDebug(key) = only(line.as_bytes()) else { panic!("an me") };
        assert_eq!(key.key(&mut [0; 250]).as_bytes(), want);
    }
}

#[test]
fn meta_storage() {
    for (flags, want) in [
        ("", MetaMode::Set),
        (" MS", MetaMode::Set),
        (" ME", MetaMode::Add),
        (" MA", MetaMode::Append),
        (" MP", MetaMode::Prepend),
        (" MR T0 F5", MetaMode::Replace),
    ] {
        let input = format!("ms k 2{flags}\r\nab\r\n").into_bytes();
        let Request::MetaSet { mode, value, .. } = only(&input) else { panic!("an ms") };
        assert_eq!((mode, value), (want, &b"ab"[..]), "{flags}");
    }
    let Request::MetaSet { args, .. } = only(b"ms Zm9v 0 b F4294967295 C1 I\n\r\n") else {
        panic!("an ms");
    };
    let MetaArgs { key, flags } = args;
    assert_eq!((flags.client_flags(), flags.cas(), flags.invalidate()), (u32::MAX, Some(1), true));
    assert_eq!(key.key(&mut [0; 250]).as_bytes(), b"foo");
}

#[test]
fn keys_fit_up_to_the_limit() {
    for len in 1..=250 {
        let name = vec![b'k'; len];
        let input = [b"get ", &name[..], b"\r\n"].concat();
        let Request::Get { keys, .. } = only(&input) else { panic!("a get") };
        let key = Key::new(&name).expect("short enough");
        assert!(keys.eq([Ok(key)]));
        let input = [b"set ", &name[..], b" 0 0 1\r\nx\r\n"].concat();
        assert!(matches!(only(&input), Request::Store(store) if store.key.as_bytes() == name));
        let input = [b"mg ", &name[..], b" v\r\n"].concat();
        assert!(matches!(only(&input), Request::MetaGet(args) if args.key.token() == name));
    }
}

#[test]
fn multigets_of_thousands_of_keys() {
    let mut input = b"get".to_vec();
    for number in 0..10_000 {
        input.extend_from_slice(format!(" key:{number}").as_bytes());
    }
    input.extend_from_slice(b"\r\n");
    let Request::Get { keys, .. } = only(&input) else { panic!("a get") };
    let mut count = 0;
    for (number, key) in keys.enumerate() {
        assert_eq!(key.expect("short").as_bytes(), format!("key:{number}").as_bytes());
        count += 1;
    }
    assert_eq!(count, 10_000);
}
