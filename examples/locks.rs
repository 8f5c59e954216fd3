//! Locks that measure themselves, in a program that is unrelated to Ceph.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use loligo_lockstat::{Class, Mode, Mutex, report, set_mode};

// Locks of one class are counted together.
static ORDERS: Class = Class::new("shop.orders");

fn main() {
    // Waits are always counted; this mode also counts how long locks are held.
    set_mode(Mode::Exact);
    let orders = Arc::new(Mutex::new(&ORDERS, Vec::new()));
    let clerks: Vec<_> = (0..4)
        .map(|clerk| {
            let orders = Arc::clone(&orders);
            thread::spawn(move || {
                for order in 0..5 {
                    let mut orders = orders.lock();
                    orders.push((clerk, order));
                    // Work that should not be done under the lock.
                    thread::sleep(Duration::from_millis(2));
                }
            })
        })
        .collect();
    for clerk in clerks {
        clerk.join().expect("a clerk does not panic");
    }
    println!("{} orders", orders.lock().len());
    // The waiters, their sites and times, and the holders: the columns of Linux's /proc/lock_stat.
    print!("{}", report().to_text());
}
