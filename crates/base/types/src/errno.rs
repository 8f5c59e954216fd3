//! Errno values: how Ceph's programs tell each other why a request failed.

use std::fmt;

use crate::DecodeError;

/// A positive errno with Linux's number, whatever the system. Ceph's messages carry it negated, in result
/// fields whose other values are no errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// Defines a constant for each errno, and the tables of their names and words. The words are those of
/// Linux, which stock programs print; a row may add what the errno means in a cluster.
macro_rules! errnos {
    ($($name:ident = $number:literal, $words:literal $(, $meaning:literal)?;)*) => {
        impl Errno {
            $(
                #[doc = concat!($words, $(": ", $meaning,)? ".")]
                pub const $name: Self = Self($number);
            )*

            /// The errno's name, such as `ENOENT`, or `None` if Linux has no errno of this number.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// The system's text for the errno, such as "No such file or directory", or `None` if Linux
            /// has no errno of this number.
            pub fn words(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($words),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, "Operation not permitted", "the capabilities of the key do not allow it";
    ENOENT = 2, "No such file or directory", "no such object, pool or key";
    ESRCH = 3, "No such process";
    EINTR = 4, "Interrupted system call";
    EIO = 5, "Input/output error", "data could not be read or written";
    ENXIO = 6, "No such device or address", "the OSD is down, or the object is of another kind";
    E2BIG = 7, "Argument list too long";
    ENOEXEC = 8, "Exec format error", "the object lacks a required feature";
    EBADF = 9, "Bad file descriptor", "the identity is in use";
    ECHILD = 10, "No child processes";
    EAGAIN = 11, "Resource temporarily unavailable", "the request must be sent again";
    ENOMEM = 12, "Cannot allocate memory";
    EACCES = 13, "Permission denied", "authentication failed";
    EFAULT = 14, "Bad address";
    ENOTBLK = 15, "Block device required";
    EBUSY = 16, "Device or resource busy", "in use, for example locked by another client";
    EEXIST = 17, "File exists";
    EXDEV = 18, "Invalid cross-device link", "the object lies in another namespace";
    ENODEV = 19, "No such device";
    ENOTDIR = 20, "Not a directory";
    EISDIR = 21, "Is a directory";
    EINVAL = 22, "Invalid argument";
    ENFILE = 23, "Too many open files in system", "the bound on all clients' watches is reached";
    EMFILE = 24, "Too many open files", "the bound on one client's watches is reached";
    ENOTTY = 25, "Inappropriate ioctl for device";
    ETXTBSY = 26, "Text file busy";
    EFBIG = 27, "File too large", "larger than an object or a file may be";
    ENOSPC = 28, "No space left on device", "the cluster is full, or the pool has reached its quota";
    ESPIPE = 29, "Illegal seek";
    EROFS = 30, "Read-only file system", "the target is a snapshot";
    EMLINK = 31, "Too many links";
    EPIPE = 32, "Broken pipe";
    EDOM = 33, "Numerical argument out of domain";
    ERANGE = 34, "Numerical result out of range";
    EDEADLK = 35, "Resource deadlock avoided";
    ENAMETOOLONG = 36, "File name too long";
    ENOLCK = 37, "No locks available";
    ENOSYS = 38, "Function not implemented";
    ENOTEMPTY = 39, "Directory not empty";
    ELOOP = 40, "Too many levels of symbolic links";
    ENOMSG = 42, "No message of desired type";
    EIDRM = 43, "Identifier removed";
    ECHRNG = 44, "Channel number out of range";
    EL2NSYNC = 45, "Level 2 not synchronized";
    EL3HLT = 46, "Level 3 halted";
    EL3RST = 47, "Level 3 reset";
    ELNRNG = 48, "Link number out of range";
    EUNATCH = 49, "Protocol driver not attached";
    ENOCSI = 50, "No CSI structure available";
    EL2HLT = 51, "Level 2 halted";
    EBADE = 52, "Invalid exchange";
    EBADR = 53, "Invalid request descriptor";
    EXFULL = 54, "Exchange full";
    ENOANO = 55, "No anode";
    EBADRQC = 56, "Invalid request code";
    EBADSLT = 57, "Invalid slot";
    EBFONT = 59, "Bad font file format";
    ENOSTR = 60, "Device not a stream";
    ENODATA = 61, "No data available", "no such extended attribute";
    ETIME = 62, "Timer expired";
    ENOSR = 63, "Out of streams resources";
    ENONET = 64, "Machine is not on the network";
    ENOPKG = 65, "Package not installed";
    EREMOTE = 66, "Object is remote";
    ENOLINK = 67, "Link has been severed";
    EADV = 68, "Advertise error";
    ESRMNT = 69, "Srmount error";
    ECOMM = 70, "Communication error on send";
    EPROTO = 71, "Protocol error", "the peer sent something that the protocol does not allow";
    EMULTIHOP = 72, "Multihop attempted";
    EDOTDOT = 73, "RFS specific error";
    EBADMSG = 74, "Bad message";
    EOVERFLOW = 75, "Value too large for defined data type";
    ENOTUNIQ = 76, "Name not unique on network";
    EBADFD = 77, "File descriptor in bad state";
    EREMCHG = 78, "Remote address changed";
    ELIBACC = 79, "Can not access a needed shared library";
    ELIBBAD = 80, "Accessing a corrupted shared library";
    ELIBSCN = 81, ".lib section in a.out corrupted";
    ELIBMAX = 82, "Attempting to link in too many shared libraries";
    ELIBEXEC = 83, "Cannot exec a shared library directly";
    EILSEQ = 84, "Invalid or incomplete multibyte or wide character";
    ERESTART = 85, "Interrupted system call should be restarted";
    ESTRPIPE = 86, "Streams pipe error";
    EUSERS = 87, "Too many users";
    ENOTSOCK = 88, "Socket operation on non-socket";
    EDESTADDRREQ = 89, "Destination address required";
    EMSGSIZE = 90, "Message too long", "too long for one request or one reply";
    EPROTOTYPE = 91, "Protocol wrong type for socket";
    ENOPROTOOPT = 92, "Protocol not available";
    EPROTONOSUPPORT = 93, "Protocol not supported";
    ESOCKTNOSUPPORT = 94, "Socket type not supported";
    EOPNOTSUPP = 95, "Operation not supported", "the peer does not know the operation";
    EPFNOSUPPORT = 96, "Protocol family not supported";
    EAFNOSUPPORT = 97, "Address family not supported by protocol";
    EADDRINUSE = 98, "Address already in use";
    EADDRNOTAVAIL = 99, "Cannot assign requested address";
    ENETDOWN = 100, "Network is down";
    ENETUNREACH = 101, "Network is unreachable";
    ENETRESET = 102, "Network dropped connection on reset";
    ECONNABORTED = 103, "Software caused connection abort";
    ECONNRESET = 104, "Connection reset by peer";
    ENOBUFS = 105, "No buffer space available", "the bound on pending notifications is reached";
    EISCONN = 106, "Transport endpoint is already connected";
    ENOTCONN = 107, "Transport endpoint is not connected", "the client was shut down, or no such watch";
    ESHUTDOWN = 108, "Cannot send after transport endpoint shutdown";
    ETOOMANYREFS = 109, "Too many references: cannot splice";
    ETIMEDOUT = 110, "Connection timed out", "no answer arrived in time";
    ECONNREFUSED = 111, "Connection refused";
    EHOSTDOWN = 112, "Host is down";
    EHOSTUNREACH = 113, "No route to host";
    EALREADY = 114, "Operation already in progress";
    EINPROGRESS = 115, "Operation now in progress";
    ESTALE = 116, "Stale file handle", "older than what is asked for";
    EUCLEAN = 117, "Structure needs cleaning";
    ENOTNAM = 118, "Not a XENIX named type file";
    ENAVAIL = 119, "No XENIX semaphores available";
    EISNAM = 120, "Is a named type file";
    EREMOTEIO = 121, "Remote I/O error";
    EDQUOT = 122, "Disk quota exceeded", "the pool's quota is used up";
    ENOMEDIUM = 123, "No medium found";
    EMEDIUMTYPE = 124, "Wrong medium type";
    ECANCELED = 125, "Operation canceled", "a comparison or another condition did not hold";
    ENOKEY = 126, "Required key not available";
    EKEYEXPIRED = 127, "Key has expired";
    EKEYREVOKED = 128, "Key has been revoked";
    EKEYREJECTED = 129, "Key was rejected by service";
    EOWNERDEAD = 130, "Owner died";
    ENOTRECOVERABLE = 131, "State not recoverable";
    ERFKILL = 132, "Operation not possible due to RF-kill";
}

impl Errno {
    /// The client is on the cluster's blocklist (`ESHUTDOWN`).
    pub const EBLOCKLISTED: Self = Self::ESHUTDOWN;
    /// The snapshot context is older than the object's (`ERESTART`).
    pub const EOLDSNAPC: Self = Self::ERESTART;

    /// Returns the errno of a negative result, or `None` if the result is not an error.
    pub fn from_result(result: i32) -> Option<Self> {
        (result < 0).then(|| Self(result.saturating_neg()))
    }

    /// The negated value, as a result field carries it.
    pub const fn to_result(self) -> i32 {
        self.0.saturating_neg()
    }
}

/// Prints the system's text and the name: "No such file or directory (ENOENT)".
/// [`EBLOCKLISTED`](Errno::EBLOCKLISTED) prints its meaning in a cluster, because the system's text is
/// about sockets.
impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::EBLOCKLISTED {
            return f.write_str(
                "blocklisted: the cluster keeps this client out, as 'ceph osd blocklist ls' shows; \
                 start it anew (ESHUTDOWN)",
            );
        }
        match (self.words(), self.name()) {
            (Some(words), Some(name)) => write!(f, "{words} ({name})"),
            _ => write!(f, "unknown error (errno {})", self.0),
        }
    }
}

/// A request whose arguments cannot be decoded is invalid (`EINVAL`).
impl From<DecodeError> for Errno {
    fn from(_: DecodeError) -> Self {
        Self::EINVAL
    }
}

#[cfg(test)]
mod tests {
    use super::Errno;

    #[test]
    fn an_errno_is_printed_with_words_and_name() {
        assert_eq!(Errno::ENOENT.to_string(), "No such file or directory (ENOENT)");
        assert_eq!(Errno(4100).to_string(), "unknown error (errno 4100)");
        let blocklisted = Errno::EBLOCKLISTED.to_string();
        assert!(blocklisted.starts_with("blocklisted: ") && blocklisted.ends_with("(ESHUTDOWN)"));
        assert_eq!((Errno::EOLDSNAPC.name(), Errno(0).name()), (Some("ERESTART"), None));
    }

    /// The words are those of the system where it is Linux, with the library that stock Ceph uses too.
    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn the_words_are_those_of_the_system() {
        for errno in (0..200).map(Errno) {
            let Some(words) = errno.words() else { continue };
            let system = std::io::Error::from_raw_os_error(errno.0).to_string();
            assert_eq!(system, format!("{words} (os error {})", errno.0));
        }
    }

    #[test]
    fn a_result_is_an_errno_if_it_is_negative() {
        assert_eq!(Errno::from_result(-2), Some(Errno::ENOENT));
        assert_eq!((Errno::from_result(0), Errno::from_result(7)), (None, None));
        assert_eq!(Errno::from_result(i32::MIN), Some(Errno(i32::MAX)));
        assert_eq!(Errno::EINVAL.to_result(), -22);
    }
}
