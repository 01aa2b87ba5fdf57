//! Pure. The tunnel of port forwarding: the binary messages of a WebSocket have the bytes of a SPDY
//! connection (CN-68).

use bytes::BytesMut;

use crate::upgraded::websocket::{self, CloseCode, Event, Reader};
use crate::upgraded::{Progress, Translation};

/// A tunnel.
#[derive(Debug, Default)]
pub struct Tunnel {
    client: Reader,
    to_client: BytesMut,
    to_kubelet: BytesMut,
}

impl Tunnel {
    fn close(&mut self, code: CloseCode) -> Progress {
        websocket::close(&mut self.to_client, code);
        Progress::Ended
    }
}

impl Translation for Tunnel {
    fn of_client(&mut self, mut bytes: &mut [u8]) -> Progress {
        loop {
            match self.client.next(&mut bytes) {
                Ok(None) => return Progress::Open,
                Ok(Some(Event::Data { bytes, .. })) => self.to_kubelet.extend_from_slice(bytes),
                Ok(Some(Event::Ping(content))) => websocket::pong(&mut self.to_client, &content),
                Ok(Some(Event::Close)) => return self.close(CloseCode::Normal),
                Err(_) => return self.close(CloseCode::ProtocolError),
            }
        }
    }

    fn of_server(&mut self, bytes: &[u8]) -> Progress {
        websocket::binary(&mut self.to_client, bytes);
        Progress::Open
    }

    fn server_gone(&mut self) -> Progress {
        self.close(CloseCode::Normal)
    }

    fn stop(&mut self) {
        let _ = self.close(CloseCode::GoingAway);
    }

    fn to_client(&mut self) -> &mut BytesMut {
        &mut self.to_client
    }

    fn to_server(&mut self) -> &mut BytesMut {
        &mut self.to_kubelet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_a_stream_of_bytes_cn_68() {
        let mut tunnel = Tunnel::default();
        // Two parts of a message, whose mask is zero, and a ping between them.
        let mut bytes = [
            &[0x02, 0x82, 0, 0, 0, 0][..],
            b"ab",
            &[0x89, 0x80, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(tunnel.of_client(&mut bytes), Progress::Open);
        let mut bytes = [&[0x80, 0x81, 0, 0, 0, 0][..], b"c"].concat();
        assert_eq!(tunnel.of_client(&mut bytes), Progress::Open);
        assert_eq!(&tunnel.to_kubelet[..], b"abc");
        assert_eq!(tunnel.of_server(b"xyz"), Progress::Open);
        assert_eq!(&tunnel.to_client[..], b"\x8a\x00\x82\x03xyz");
        assert_eq!(tunnel.server_gone(), Progress::Ended);
        assert_eq!(tunnel.to_client[7..], [0x88, 2, 0x03, 0xe8]);
    }
}
