//! Failures of the cluster, chosen by the seed, and its recovery.

use std::sync::Arc;
use std::time::Duration;

use loligo_maps::{MapFlags, OsdMap, PgPool, PoolFlags};
use loligo_msgr::testing::Weather;
use loligo_wire::{Epoch, OsdId, PgId};
use tokio::time::{Instant, sleep};

use crate::cluster::{Cluster, MONS, OSDS, client_ip, mon_ip, osd_ip};

/// Causes failures for a while.
pub(crate) async fn rage(cluster: &Arc<Cluster>, lasting: Duration) {
    cluster.lock().calm = false;
    let until = Instant::now() + lasting;
    let pace = 10 + cluster.lock().below(1500);
    while Instant::now() < until {
        act(cluster).await;
        // At least 1 ms, so that simulated time advances.
        let pause = 1 + cluster.lock().below(pace);
        sleep(Duration::from_millis(pause)).await;
    }
}

async fn act(cluster: &Arc<Cluster>) {
    let (what, osd, mon) = {
        let mut state = cluster.lock();
        (state.below(26), state.below(OSDS as u64) as usize, state.below(MONS as u64) as usize)
    };
    cluster.lock().say(|| format!("adversary: {what} (osd.{osd}, mon.{mon})"));
    match what {
        0 | 1 => die(cluster, osd).await,
        2..=5 => come_back(cluster, osd).await,
        6 => mark_down(cluster, osd),
        7 => {
            let weight = if cluster.lock().chance(60) { OsdMap::WEIGHT_IN } else { 0 };
            cluster.change(|_, inc| inc.osd_weight(OsdId(osd as i32), weight));
        }
        8 => {
            let affinity = cluster.lock().below(u64::from(OsdMap::WEIGHT_IN) + 1) as u32;
            cluster.change(|_, inc| {
                inc.new_primary_affinity.insert(OsdId(osd as i32), affinity);
            });
        }
        9..=11 => displace(cluster, osd),
        12 => change_pool(cluster, |pool, chance| {
            let pg_num = [4, 6, 8, 12, 16][chance % 5];
            pool.with_pg_num(pg_num)
        }),
        13 => change_pool(cluster, |mut pool, chance| {
            pool.size = 1 + (chance % 3) as u8;
            pool
        }),
        14 => change_pool(cluster, |mut pool, chance| {
            pool.flags = if chance.is_multiple_of(2) {
                pool.flags | PoolFlags::FULL
            } else {
                pool.flags.difference(PoolFlags::FULL)
            };
            pool
        }),
        15 => force_resend(cluster),
        16 | 17 => flag(cluster),
        18 => cluster.network.reset([osd_ip(osd), mon_ip(mon), client_ip()][osd % 3]),
        19 => cluster.network.cut_off(if mon == 0 { mon_ip(osd) } else { osd_ip(osd) }),
        20 => join_all(cluster),
        21 => {
            let hangs = !cluster.lock().mons[mon].hangs;
            cluster.lock().mons[mon].hangs = hangs;
        }
        22 => {
            cluster.kill_mon(mon).await;
            if cluster.lock().chance(70) {
                cluster.start_mon(mon).await;
            }
        }
        23 => {
            let maps = cluster.lock().below(12);
            (0..maps).for_each(|_| cluster.change(|_, _| {}));
        }
        24 => {
            let hangs = !cluster.lock().osds[osd].hangs;
            cluster.lock().osds[osd].hangs = hangs;
        }
        _ => change_weather(cluster),
    }
}

/// Kills an OSD, with or without closing its connections; the map marks it down later.
async fn die(cluster: &Arc<Cluster>, osd: usize) {
    let silently = cluster.lock().chance(30);
    if silently {
        cluster.network.cut_off(osd_ip(osd));
    }
    cluster.kill_osd(osd).await;
    if silently {
        // The host is reachable again, but does not know its old connections.
        cluster.network.join(osd_ip(osd));
    }
    let noticed = cluster.lock().below(5000);
    let life = cluster.lock().osds[osd].life;
    cluster.spawn_later(noticed, move |cluster| {
        if cluster.lock().osds[osd].life == life {
            mark_down(cluster, osd);
        }
    });
}

fn mark_down(cluster: &Arc<Cluster>, osd: usize) {
    let id = OsdId(osd as i32);
    let is_up = cluster.lock().map.is_up(id);
    if is_up {
        cluster.change(|_, inc| inc.osd_down(id));
    }
}

/// Restarts an OSD that is dead, or marked down.
async fn come_back(cluster: &Arc<Cluster>, osd: usize) {
    let is_well = {
        let state = cluster.lock();
        state.osds[osd].messenger.is_some() && state.map.is_up(OsdId(osd as i32))
    };
    if !is_well {
        cluster.kill_osd(osd).await;
        cluster.start_osd(osd).await;
    }
}

/// Moves a placement group to another OSD, temporarily or permanently.
fn displace(cluster: &Arc<Cluster>, osd: usize) {
    let (pg, kind) = {
        let mut state = cluster.lock();
        let Some(pool) = state.pool() else { return };
        let pg_num = state.map.pool(pool).map_or(1, PgPool::pg_num);
        (PgId { pool, seed: state.below(u64::from(pg_num)) as u32 }, state.below(6))
    };
    let (one, other) = (OsdId(osd as i32), OsdId(((osd + 1) % OSDS) as i32));
    cluster.change(|map, inc| match kind {
        0 => drop(inc.new_pg_temp.insert(pg, vec![one, other])),
        1 => inc.new_pg_temp.extend(map.pg_temp.keys().map(|pg| (*pg, Vec::new()))),
        2 => drop(inc.new_primary_temp.insert(pg, one)),
        3 => inc.new_primary_temp.extend(map.primary_temp.keys().map(|pg| (*pg, OsdId(-1)))),
        4 => drop(inc.new_pg_upmap_items.insert(pg, vec![(one, other)])),
        _ => inc.old_pg_upmap_items.extend(map.pg_upmap_items.keys()),
    });
}

fn change_pool(cluster: &Arc<Cluster>, change: impl FnOnce(PgPool, usize) -> PgPool) {
    let chance = cluster.lock().below(1 << 30) as usize;
    let Some(id) = cluster.lock().pool() else { return };
    cluster.change(|map, inc| {
        let pool = map.pool(id).expect("it has a name").clone();
        inc.new_pools.insert(id, change(pool, chance));
    });
}

fn force_resend(cluster: &Arc<Cluster>) {
    let next = Epoch(cluster.lock().map.epoch.0 + 1);
    change_pool(cluster, |mut pool, _| {
        pool.last_force_op_resend = next;
        pool
    });
}

/// Sets or clears a flag of the cluster.
fn flag(cluster: &Arc<Cluster>) {
    let (flag, set) = {
        let mut state = cluster.lock();
        let flags = [MapFlags::PAUSERD, MapFlags::PAUSEWR, MapFlags::FULL];
        (flags[state.below(3) as usize], state.chance(40))
    };
    cluster.change(|map, inc| {
        inc.new_flags = Some(if set { map.flags.union(flag) } else { map.flags.difference(flag) });
    });
}

fn join_all(cluster: &Arc<Cluster>) {
    (0..OSDS).for_each(|osd| cluster.network.join(osd_ip(osd)));
    (0..MONS).for_each(|mon| cluster.network.join(mon_ip(mon)));
}

fn change_weather(cluster: &Arc<Cluster>) {
    let mut state = cluster.lock();
    let latency = [3, 30, 200][state.below(3) as usize];
    let weather = Weather {
        latency_ms: 1..=latency,
        piece_bytes_max: 1 + state.below(4000),
        window_bytes: 300..=20_000,
        mortal_percent: state.below(90),
        life_bytes_max: 1 + state.below(40_000),
        silent_percent: state.below(15),
        refused_percent: state.below(20),
    };
    drop(state);
    cluster.network.set_weather(weather);
}

/// Restores the cluster: all daemons run, and nothing is cut off, full or paused.
pub(crate) async fn heal(cluster: &Arc<Cluster>) {
    cluster.lock().say(|| "everything is well from now on".to_owned());
    cluster.network.set_weather(Weather::calm());
    join_all(cluster);
    {
        let mut state = cluster.lock();
        state.calm = true;
        state.osds.iter_mut().for_each(|osd| osd.hangs = false);
        state.mons.iter_mut().for_each(|mon| mon.hangs = false);
    }
    for mon in 0..MONS {
        let runs = cluster.lock().mons[mon].messenger.is_some();
        if !runs {
            cluster.start_mon(mon).await;
        }
    }
    for osd in 0..OSDS {
        cluster.change(|_, inc| inc.osd_weight(OsdId(osd as i32), OsdMap::WEIGHT_IN));
        come_back(cluster, osd).await;
    }
    cluster.change(|map, inc| {
        let flags = MapFlags::PAUSERD.union(MapFlags::PAUSEWR).union(MapFlags::FULL);
        inc.new_flags = Some(map.flags.difference(flags));
    });
    change_pool(cluster, |mut pool, _| {
        pool.flags = pool.flags.difference(PoolFlags::FULL);
        pool
    });
}
