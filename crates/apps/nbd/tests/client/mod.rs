//! A client that sends whatever a test specifies, valid or not.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISC: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const BLOCK_STATUS: u16 = 7;
pub(crate) const SHUTDOWN: u32 = 108;

/// A connection with simple replies.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) size: u64,
}

impl Client {
    /// Chooses an export by EXPORT_NAME.
    pub(crate) async fn connect(addr: std::net::SocketAddr, name: &str) -> io::Result<Self> {
        let mut stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).await?;
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
        let mut chosen = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1]].concat();
        chosen.extend((name.len() as u32).to_be_bytes());
        chosen.extend(name.as_bytes());
        stream.write_all(&chosen).await?;
        let mut export = [0; 10];
        stream.read_exact(&mut export).await?;
        let size = u64::from_be_bytes(export[..8].try_into().expect("eight bytes"));
        Ok(Self { stream, size })
    }

    /// Encodes a request.
    pub(crate) fn request(command: u16, cookie: u64, offset: u64, len: u32, data: &[u8]) -> Vec<u8> {
        let mut request = [&[0x25, 0x60, 0x95, 0x13, 0, 0][..], &command.to_be_bytes()].concat();
        request.extend(cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(len.to_be_bytes());
        request.extend(data);
        request
    }

    pub(crate) async fn send(&mut self, command: u16, cookie: u64, offset: u64, len: u32, data: &[u8]) {
        self.stream.write_all(&Self::request(command, cookie, offset, len, data)).await.expect("it listens");
    }

    /// Error and cookie of the next reply.
    pub(crate) async fn reply(&mut self) -> io::Result<(u32, u64)> {
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply).await?;
        assert_eq!(reply[..4], [0x67, 0x44, 0x66, 0x98]);
        let error = u32::from_be_bytes(reply[4..8].try_into().expect("four bytes"));
        Ok((error, u64::from_be_bytes(reply[8..].try_into().expect("eight bytes"))))
    }

    pub(crate) async fn write(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.send(WRITE, 1, offset, data.len() as u32, data).await;
        self.reply().await.expect("an answer").0
    }

    pub(crate) async fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, u32> {
        self.send(READ, 2, offset, len, b"").await;
        let (error, _) = self.reply().await.expect("an answer");
        if error != 0 {
            return Err(error);
        }
        let mut data = vec![0; len as usize];
        self.stream.read_exact(&mut data).await.expect("the data");
        Ok(data)
    }

    /// Returns whether the server has closed the connection.
    pub(crate) async fn is_over(&mut self) -> bool {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).await.is_err() || rest.is_empty()
    }
}
