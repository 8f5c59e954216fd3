//! The macro `log!` and its helper.

/// Logs a line: `log!(MSGR, 10, "sent {} frames to {}", n, addr)`.
///
/// The subsystem is a constant of [`Subsys`](crate::Subsys), the level a constant from −1 (an error) to 20.
/// Up to eight arguments, each a [`Raw`](crate::Raw), follow the format string. They are evaluated only
/// if the level is recorded. The compiler checks the format string; the log thread formats it.
#[macro_export]
macro_rules! log {
    ($subsys:ident, $level:expr, $format:literal $(, $arg:expr)* $(,)?) => {{
        const LEVEL: i8 = $level;
        if $crate::Subsys::$subsys.records(LEVEL) {
            struct Here;
            impl $crate::expansion::Site for Here {
                const PLACE: $crate::expansion::Place = $crate::expansion::Place {
                    subsys: $crate::Subsys::$subsys,
                    level: LEVEL,
                    file: ::core::file!(),
                    line: ::core::line!(),
                };
            }
            $crate::__log_args!(Here, $format, () (a b c d e f g h) $($arg,)*);
        }
    }};
}

/// Gives each argument a name, in order.
#[doc(hidden)]
#[macro_export]
macro_rules! __log_args {
    ($here:ident, $format:literal, ($($name:ident $value:expr,)*) ($($free:ident)*)) => {
        $crate::expansion::record::<$here, _, _>(
            &($(&$value,)*),
            |out: &mut dyn ::core::fmt::Write, ($($name,)*)| ::core::write!(out, $format $(, $name)*),
        )
    };
    ($here:ident, $format:literal, ($($done:tt)*) ($next:ident $($free:ident)*) $arg:expr, $($rest:expr,)*) => {
        $crate::__log_args!($here, $format, ($($done)* $next $arg,) ($($free)*) $($rest,)*)
    };
}
