//! The meta commands, as memcached answers them: request bytes against reply bytes.

mod support;

use support::Rig;

#[test]
fn mg_returns_facts_in_the_order_of_its_flags() {
    let mut rig = Rig::new();
    rig.converse(&[
        ("mg a v|", "EN|"),
        ("mg a v q k O7|mn|", "MN|"),
        ("mg a k O7|", "EN ka O7|"),
        ("set a 5 100 3|one|", "STORED|"),
        ("mg a|", "HD|"),
        ("set a 5 100 3|one|", "STORED|"),
        ("mg a s v h l t f c k Oxy|", "VA 3 s3 h0 l0 t100 f5 c2 ka Oxy|one|"),
        ("mg a q v|", "VA 3|one|"),
        ("mg a c k h|", "HD c2 ka h1|"),
        ("mg a C2 v c|", "HD c2|"),
        ("mg a C9 v c|", "VA 3 c2|one|"),
        ("mg YQ== b k v|", "VA 3 kYQ== b|one|"),
        ("mg a T0 t|", "HD t-1|"),
        ("mg a !|", "CLIENT_ERROR bad command line format|"),
        ("mg a v v|", "CLIENT_ERROR duplicate flag|"),
        ("mg a M|", "HD|"),
        ("mg a y|", "CLIENT_ERROR invalid flag|"),
        ("mg|", "CLIENT_ERROR bad command line format|"),
    ]);
    rig.wait_s(6);
    rig.converse(&[("mg a u h l|", "HD h1 l6|")]);
}

#[test]
fn a_read_with_u_leaves_no_trace() {
    Rig::new().converse(&[
        ("set a 0 0 1|x|", "STORED|"),
        ("mg a u h|", "HD h0|"),
        ("mg a h|", "HD h0|"),
        ("mg a h|", "HD h1|"),
    ]);
}

#[test]
fn ms_stores_by_its_mode_and_token() {
    Rig::new().converse(&[
        ("ms a 3 c k O1|one|", "HD c1 ka O1|"),
        ("ms a 3 q|two|mn|", "MN|"),
        ("ms a 5 ME|three|", "NS|"),
        ("ms a 5 ME C1|three|", "NS|"),
        ("ms b 5 ME F9 T60|three|", "HD|"),
        ("mg b v f t|", "VA 5 f9 t60|three|"),
        ("ms c 1 MR|x|", "NS|"),
        ("ms b 1 MR|x|", "HD|"),
        ("ms b 2 MA s|yz|", "HD s3|"),
        ("ms b 1 MP|w|", "HD|"),
        ("mg b v|", "VA 4|wxyz|"),
        ("ms none 1 MA|x|", "NS|"),
        ("ms none 1 MA C5|x|", "NS|"),
        ("ms none 1 MA C5 N30|x|", "HD|"),
        ("mg none v t|", "VA 1 t30|x|"),
        ("ms a 1 C99 c|x|", "EX c0|"),
        ("ms a 1 C2 E77 c|x|", "HD c77|"),
        ("mg a c v|", "VA 1 c77|x|"),
        ("ms gone 1 C5|x|", "NF|"),
        ("ms a 1 MZ|x|", "CLIENT_ERROR invalid mode for ms M token|"),
        ("ms a x|", "CLIENT_ERROR bad command line format|"),
    ]);
}

#[test]
fn one_client_renews_a_stale_item() {
    Rig::new().converse(&[
        ("ms a 3 T100|old|", "HD|"),
        ("md a I|", "HD|"),
        ("gat 30 a|", "VALUE a 0 3|old|END|"),
        ("mg a v t c|", "VA 3 t30 c2 X W|old|"),
        ("mg a v|", "VA 3 Z X|old|"),
        ("get a|", "VALUE a 0 3|old|END|"),
        ("ms a 3 I C1 T90|mid|", "HD|"),
        ("mg a v t|", "VA 3 t30 Z X|mid|"),
        ("ms a 3 I C0|bad|", "EX|"),
        ("ms a 3 C3 T90|new|", "HD|"),
        ("mg a v t|", "VA 3 t90|new|"),
    ]);
}

#[test]
fn one_client_creates_a_missing_item_or_renews_an_expiring_one() {
    let mut rig = Rig::new();
    rig.converse(&[
        ("mg a N30 v t c E9|", "VA 0 t30 c9 W||"),
        ("mg a N30 v t c E5|", "VA 0 t30 c9 Z||"),
        ("ms a 1 T100|x|", "HD|"),
        ("mg a R30 v|", "VA 1|x|"),
    ]);
    rig.wait_s(71);
    rig.converse(&[
        ("mg a R30 v t|", "VA 1 t29 W|x|"),
        ("mg a R30 v t|", "VA 1 t29 Z|x|"),
        ("ms a 1 T100|y|", "HD|"),
        ("mg a R30 v t|", "VA 1 t100|y|"),
    ]);
}

#[test]
fn marks_change_with_length_and_touch_as_in_memcached() {
    let mut rig = Rig::new();
    rig.converse(&[("set a 0 0 1|x|md a I|", "STORED|HD|")]);
    rig.wait_s(10);
    rig.converse(&[
        ("mg a h l|", "HD h0 l10 X W|"),
        ("mg a h|", "HD h1 Z X|"),
        ("append a 0 0 1|c|", "STORED|"),
        ("mg a h v|", "VA 2 h0|xc|"),
        ("set n 0 0 1|9|mg n|md n I|", "STORED|HD|HD|"),
        ("ma n C0 v|", "VA 2|10|"),
        ("mg n h|", "HD h0|"),
        ("set t 0 50 1|x|touch t 60|mg t h|", "STORED|TOUCHED|HD h1|"),
        ("mg new N30 h|", "HD h0 W|"),
        ("mg new h|", "HD h1 Z|"),
        ("mg t R70 T300|", "HD W|"),
        ("set t 0 60 1|x|", "STORED|"),
        ("mg t R2592001|mg t R-1|mg t R0|", "HD|HD|HD|"),
    ]);
}

#[test]
fn md_deletes_marks_or_empties() {
    Rig::new().converse(&[
        ("md a|", "NF|"),
        ("md a q|mn|", "NF|MN|"),
        ("ms a 3 F5 T50|one|", "HD|"),
        ("md a C9|", "EX|"),
        ("md a x|", "HD|"),
        ("mg a v f t|", "VA 0 f0 t50||"),
        ("ms a 3|one|", "HD|"),
        ("md a x I F7 T20 E88|", "HD|"),
        ("mg a v f t c|", "VA 0 f7 t20 c88 X W||"),
        ("md a k O3|", "HD ka O3|"),
        ("mg a|", "EN|"),
        ("ms a 1|x|", "HD|"),
        ("md a q|mn|", "MN|"),
    ]);
}

#[test]
fn ma_counts() {
    Rig::new().converse(&[
        ("ma n|", "NF|"),
        ("ma n N30 J13 v t|", "VA 2 t30|13|"),
        ("ma n N30 J13 v|", "VA 2|14|"),
        ("ma n D10|", "HD|"),
        ("ma n MD D4 v c|", "VA 2 c4|20|"),
        ("ma n M- D99 v|", "VA 1|0|"),
        ("ma n E50 q|mn|", "MN|"),
        ("ma n C50 c|", "HD c7|"),
        ("ma n C1|", "EX|"),
        ("ma n T9 t|", "HD t9|"),
        ("set t 0 0 1|x|", "STORED|"),
        ("ma t|", "CLIENT_ERROR cannot increment or decrement non-numeric value|"),
        ("ma n MX|", "CLIENT_ERROR invalid mode for ma M token|"),
        ("ma n Dx|", "CLIENT_ERROR invalid or duplicate flag|"),
    ]);
}

#[test]
fn me_shows_an_item_without_reading_it() {
    Rig::new().converse(&[
        ("me a|", "EN|"),
        ("set a 0 0 1|x|", "STORED|"),
        ("me a|", "ME a exp=-1 la=0 cas=1 fetch=no cls=1 size=24|"),
        ("mg a T40|me a|", "HD|ME a exp=40 la=0 cas=1 fetch=yes cls=1 size=24|"),
    ]);
}
