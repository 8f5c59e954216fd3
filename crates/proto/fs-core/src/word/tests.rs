//! The word against a model with plain fields.

use proptest::prelude::*;

use super::layout::Fields;
use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Ref(usize, u32),
    Put(usize),
    Publish(u64, u32),
    Revoke(u64),
    Finish(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..4_usize, 0..3_u32).prop_map(|(class, generation)| Step::Ref(class, generation)),
        3 => (0..4_usize).prop_map(Step::Put),
        1 => (0..32_u64, 0..3_u32).prop_map(|(held, generation)| Step::Publish(held, generation)),
        1 => (0..32_u64).prop_map(Step::Revoke),
        1 => (0..32_u64).prop_map(Step::Finish),
    ];
    proptest::collection::vec(step, 0..200)
}

#[test]
fn the_fields_survive_the_word() {
    for word in [0, u64::MAX, 0x0123_4567_89ab_cdef, 1 << 63, 0x5555_5555_5555_5555] {
        assert_eq!(Fields::of(word).word(), word);
    }
}

#[test]
fn a_full_class_refuses() {
    let word = CapWord::new();
    word.publish(Caps::FILE_RD, 1);
    for _ in 0..REFERENCES_MAX {
        assert_eq!(word.try_ref(Class::Read, 1), Ok(()));
    }
    assert_eq!(word.try_ref(Class::Read, 1), Err(Refusal::Full));
    assert_eq!(word.put(Class::Read), Caps::NONE);
    assert_eq!(word.try_ref(Class::Read, 1), Ok(()));
}

#[test]
fn the_last_operation_drains_a_revoke() {
    let word = CapWord::new();
    word.publish(Caps::FILE_RD | Caps::FILE_CACHE, 7);
    assert_eq!(word.try_ref(Class::Read, 7), Ok(()));
    assert_eq!(word.try_ref(Class::CachedRead, 7), Ok(()));
    assert_eq!(word.try_ref(Class::CachedRead, 6), Err(Refusal::Stale));
    assert_eq!(word.try_ref(Class::Write, 7), Err(Refusal::Missing));
    assert_eq!(word.revoke(Caps::FILE_CACHE), Caps::NONE);
    assert_eq!(word.try_ref(Class::CachedRead, 7), Err(Refusal::Revoking));
    assert_eq!(word.try_ref(Class::Read, 7), Ok(()), "Fr is not revoked");
    assert_eq!(word.finish(Caps::FILE_CACHE), Caps::FILE_CACHE, "still in use");
    assert_eq!(word.put(Class::CachedRead), Caps::FILE_CACHE);
    assert_eq!(word.finish(Caps::FILE_CACHE), Caps::NONE);
    assert_eq!(word.try_ref(Class::CachedRead, 7), Err(Refusal::Missing));
    assert_eq!(word.usable(), Caps::FILE_RD);
}

/// Goal: a revoke sees a short read that uses its capability, whether the word counts it or not.
#[test]
fn a_short_read_keeps_its_capabilities_in_use() {
    for word in [CapWord::new(), CapWord::shared()] {
        word.publish(Caps::FILE_RD | Caps::FILE_CACHE, 7);
        let (read, looks) = word.short_read(3, 7, || {
            assert!(word.busy().cached_reads && word.used().contains(Caps::FILE_CACHE));
            assert_eq!(word.revoke(Caps::FILE_CACHE), Caps::NONE);
            assert_eq!(word.finish(Caps::FILE_CACHE), Caps::FILE_CACHE, "still in use");
            5
        });
        assert_eq!((read, looks), (Ok(5), true));
        assert!(!word.busy().cached_reads);
        assert_eq!(word.short_read(3, 7, || ()).0, Err(Refusal::Revoking));
        assert_eq!(word.finish(Caps::FILE_CACHE), Caps::NONE);
        assert_eq!(word.short_read(3, 7, || ()).0, Err(Refusal::Missing));
        word.publish(Caps::FILE_RD | Caps::FILE_CACHE, 8);
        assert_eq!(word.short_read(3, 7, || ()).0, Err(Refusal::Stale));
        assert_eq!(word.short_read(3, 8, || ()), (Ok(()), false));
    }
}

/// Goal: what is published no more while a short read uses it is being revoked until the read ends.
#[test]
fn what_is_published_no_more_waits_for_short_reads() {
    for word in [CapWord::new(), CapWord::shared()] {
        word.publish(Caps::FILE_RD | Caps::FILE_CACHE, 1);
        let (_, looks) = word.short_read(0, 1, || {
            word.publish(Caps::FILE_RD, 1);
            assert_eq!(word.usable(), Caps::FILE_RD);
            assert_eq!(word.finish(Caps::FILE_CACHE), Caps::FILE_CACHE);
        });
        assert!(looks);
        assert_eq!(word.finish(Caps::FILE_CACHE), Caps::NONE);
        word.publish(Caps::NONE, 1);
        assert_eq!(word.finish(Caps::FILE_RD), Caps::NONE);
        assert_eq!(word.short_read(0, 1, || ()), (Err(Refusal::Missing), false));
    }
}

proptest! {
    #[test]
    fn references_are_given_only_for_what_is_held(steps in steps()) {
        let word = CapWord::new();
        let (mut held, mut revoking, mut current) = (Caps::NONE, Caps::NONE, 0);
        let mut counts = [0_u32; 4];
        let used = |counts: &[u32; 4]| {
            let running = Class::ALL.into_iter().zip(counts).filter(|(_, count)| **count > 0);
            running.fold(Caps::NONE, |used, (class, _)| used | class.caps())
        };
        for step in steps {
            match step {
                Step::Ref(class, generation) => {
                    let caps = Class::ALL[class].caps();
                    let may = held.contains(caps) && !revoking.intersects(caps) && generation == current;
                    prop_assert_eq!(word.try_ref(Class::ALL[class], generation).is_ok(), may);
                    counts[class] += u32::from(may);
                }
                Step::Put(class) if counts[class] > 0 => {
                    let before = used(&counts);
                    counts[class] -= 1;
                    let drained = (before - used(&counts)) & revoking;
                    prop_assert_eq!(word.put(Class::ALL[class]), drained);
                }
                Step::Put(_) => {}
                Step::Publish(bits, generation) => {
                    let bits = set_of(bits);
                    word.publish(bits, generation);
                    revoking = (held - bits) & (revoking | used(&counts));
                    held = bits | revoking;
                    current = generation;
                }
                Step::Revoke(bits) => {
                    let bits = set_of(bits);
                    revoking |= bits & held;
                    prop_assert_eq!(word.revoke(bits), (bits & revoking) - used(&counts));
                }
                Step::Finish(bits) => {
                    let bits = set_of(bits);
                    let gone = (bits & revoking) - used(&counts);
                    held -= gone;
                    revoking -= gone;
                    prop_assert_eq!(word.finish(bits), bits & held);
                }
            }
            prop_assert_eq!(word.used(), used(&counts));
            prop_assert_eq!(word.usable(), held - revoking);
        }
    }
}
