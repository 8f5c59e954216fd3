//! [`message_body`]: declares messages whose front consists of their fields in order.

/// Declares a struct and implements [`Message`](crate::message::Message) for it: the front consists of
/// the fields in order, and there is no bulk data.
macro_rules! message_body {
    (
        $(#[$outer:meta])*
        $name:ident = $kind:literal $ceph:literal, version $version:literal, compat $compat:literal, $priority:ident {
            $($(#[$doc:meta])* $field:ident: $ty:ty,)*
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $ty,)*
        }

        impl $crate::message::Message for $name {
            const NAME: &'static str = $ceph;
            const KIND: u16 = $kind;
            const VERSION: u16 = $version;
            const COMPAT: u16 = $compat;
            const PRIORITY: u16 = $crate::message::Header::$priority;

            fn encode_front(&self, _w: &mut $crate::Writer) {
                $(_w.put(&self.$field);)*
            }

            fn decode(
                _: &$crate::message::Header,
                _r: &mut $crate::Reader<'_>,
                _: &$crate::message::Data,
            ) -> Result<Self, $crate::DecodeError> {
                Ok(Self { $($field: _r.get()?,)* })
            }
        }
    };
}

pub(crate) use message_body;
