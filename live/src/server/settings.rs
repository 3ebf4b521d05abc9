// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Configuration files of other people's servers: one worker, no log, and else as they come.

use tidegate_scenarios::{Page, Server, ServerKind};

use super::FOLDER;
use crate::ground::PORT;

/// Of a server that is not ours; ours take theirs from the command line.
pub(super) fn of(server: &Server) -> String {
    let backlog = server.backlog;
    match server.kind {
        ServerKind::Nginx => nginx(backlog, server.multi_accept),
        ServerKind::Apache2 => apache2(backlog),
        ServerKind::Lighttpd => lighttpd(backlog),
        _ => haproxy(backlog),
    }
}

fn nginx(backlog: u32, multi_accept: bool) -> String {
    let multi_accept = if multi_accept { "on" } else { "off" };
    format!(
        "daemon off; master_process off; user root; pid {FOLDER}/pid; error_log {FOLDER}/errors;\n\
         events {{ worker_connections 20000; multi_accept {multi_accept}; }}\n\
         http {{ access_log off; keepalive_requests 100000;\n\
         client_body_temp_path {FOLDER}/body; proxy_temp_path {FOLDER}/proxy;\n\
         fastcgi_temp_path {FOLDER}/fastcgi; uwsgi_temp_path {FOLDER}/uwsgi;\n\
         scgi_temp_path {FOLDER}/scgi; sendfile on; tcp_nopush on;\n\
         server {{ listen {PORT} backlog={backlog}; root {FOLDER}/www; }} }}\n"
    )
}

fn apache2(backlog: u32) -> String {
    format!(
        "ServerRoot {FOLDER}\nServerName tidelab\nListen {PORT}\nListenBacklog {backlog}\n\
         PidFile {FOLDER}/pid\nErrorLog {FOLDER}/errors\nLogLevel crit\nMutex posixsem\n\
         LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n\
         LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n\
         LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so\n\
         StartServers 1\nServerLimit 1\nThreadsPerChild 64\nMaxRequestWorkers 64\n\
         MaxKeepAliveRequests 0\n\
         DocumentRoot {FOLDER}/www\n<Directory />\nRequire all granted\n</Directory>\n"
    )
}

fn lighttpd(backlog: u32) -> String {
    format!(
        "server.port = {PORT}\nserver.document-root = \"{FOLDER}/www\"\n\
         server.errorlog = \"{FOLDER}/errors\"\nserver.listen-backlog = {backlog}\n\
         server.max-connections = 16384\nserver.max-fds = 16384\n\
         server.max-keep-alive-requests = 100000\nindex-file.names = ( \"index.html\" )\n"
    )
}

/// It answers by itself: what is measured is its way with connections.
fn haproxy(backlog: u32) -> String {
    let body = "~".repeat(Page::ONE_PACKET_BYTES);
    format!(
        "global\n nbthread 1\n maxconn 8192\ndefaults\n mode http\n timeout client 10s\n\
         \ttimeout http-request 10s\n timeout http-keep-alive 10s\nfrontend page\n\
         \tbind :{PORT} backlog {backlog}\n\
         \thttp-request return status 200 content-type text/plain string \"{body}\"\n"
    )
}
