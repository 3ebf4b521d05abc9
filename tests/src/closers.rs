// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections of real sockets, each closed first by the end that is asked for.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tidegate_lab::Namespace;

/// Who closes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// The client, and all of it at once.
    Client,
    /// The server, and all of it at once.
    Server,
    /// The client, which goes on reading to the end.
    ClientHalf,
    /// The server, which goes on reading to the end.
    ServerHalf,
    /// Both, as nearly at once as two programs can.
    Both,
}

impl First {
    /// Every way.
    pub const ALL: [First; 5] =
        [First::Client, First::Server, First::ClientHalf, First::ServerHalf, First::Both];

    /// The ends by turns: of an even number of connections each closes half first.
    pub fn by_turns(i: u16) -> First {
        if i.is_multiple_of(2) { First::Server } else { First::Client }
    }

    fn word(self) -> u8 {
        Self::ALL.iter().position(|one| *one == self).expect("one of all") as u8
    }
}

const PATIENCE: Duration = Duration::from_secs(5);

/// How far away a client is whose RST must end the server's TIME-WAIT: what it takes to answer the
/// server's FIN with its own. A program that is still in close() has its socket take segments from a
/// queue, one after the other. A client next door has its RST there before TIME-WAIT has taken the
/// socket's place, and the kernel drops it as one for a socket that is over (TCP_CLOSE, seen with
/// one connection in 20,000 on a busy machine); one across a network comes later.
pub const AFAR: Duration = Duration::from_millis(5);

fn read_to_end(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).expect("an option");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the other end closes, and does not reset");
}

fn half_close(mut stream: TcpStream) {
    stream.shutdown(Shutdown::Write).expect("an open connection");
    read_to_end(&mut stream);
}

fn serve(mut stream: TcpStream) {
    let mut word = [0];
    stream.set_read_timeout(Some(PATIENCE)).expect("an option");
    stream.read_exact(&mut word).expect("the client says who closes");
    stream.write_all(&word).expect("it reads");
    match First::ALL[usize::from(word[0])] {
        First::Server | First::Both => drop(stream),
        First::ServerHalf => half_close(stream),
        First::Client | First::ClientHalf => read_to_end(&mut stream),
    }
}

/// Serves on a port of either family until the namespace ends, a thread a connection.
pub fn serve_closers(namespace: &Namespace, port: u16) {
    for any in [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
        let listener = namespace.run(move || {
            let socket = Socket::new(
                Domain::for_address((any, port).into()),
                Type::STREAM,
                Some(Protocol::TCP),
            )
            .expect("a socket");
            if any.is_ipv6() {
                socket.set_only_v6(true).expect("an option");
            }
            socket.set_reuse_address(true).expect("an option");
            socket.bind(&SocketAddr::new(any, port).into()).expect("a free port");
            socket.listen(1024).expect("a listener");
            TcpListener::from(socket)
        });
        // It blocks in accept() until the process ends.
        let _ = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = std::thread::Builder::new().stack_size(65_536).spawn(|| serve(stream));
            }
        });
    }
}

/// One connection from `own`, next door, to `to`, closed first as asked; an error is connect()'s.
pub fn close_first(own: SocketAddr, to: SocketAddr, first: First) -> std::io::Result<()> {
    close_first_from(own, Duration::ZERO, to, first)
}

/// The same of a client so far away.
pub fn close_first_from(
    own: SocketAddr,
    away: Duration,
    to: SocketAddr,
    first: First,
) -> std::io::Result<()> {
    end_first_from(connect_from(own, to)?, away, first)
}

/// The first half of it: the connection stands, and nothing is said yet.
pub fn connect_from(own: SocketAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&own.into())?;
    socket.connect_timeout(&to.into(), PATIENCE)?;
    Ok(socket.into())
}

/// The second.
pub fn end_first_from(mut stream: TcpStream, away: Duration, first: First) -> std::io::Result<()> {
    let mut word = [first.word()];
    stream.write_all(&word)?;
    stream.read_exact(&mut word)?;
    match first {
        First::Client | First::Both => drop(stream),
        First::ClientHalf => half_close(stream),
        First::Server | First::ServerHalf => {
            read_to_end(&mut stream);
            sleep(away);
        }
    }
    Ok(())
}

/// The far ends of the pairs that the kernel holds in TIME-WAIT in a namespace.
pub fn kernel_time_wait(namespace: &Namespace) -> Vec<String> {
    let rows = namespace.output(namespace.command("ss -Htn state time-wait")).expect("ss");
    rows.lines().map(|row| row.split_whitespace().last().unwrap_or_default().to_owned()).collect()
}
