import Glibc

/// The user that the server runs as: ourselves, or `postgres` when we are root, which PostgreSQL refuses.
package struct ServerUser: Sendable {
    let userID: uid_t
    let groupID: gid_t
    /// Whether it is somebody else than we are.
    package let isOther: Bool

    /// Throws `.cluster` when we are root and there is no user `postgres`.
    package static func choose() throws(PostgresError) -> ServerUser {
        guard geteuid() == 0 else { return ServerUser(userID: geteuid(), groupID: getegid(), isOther: false) }
        guard let entry = unsafe getpwnam("postgres") else {
            throw PostgresError(
                .cluster,
                activity: "choose a user for PostgreSQL",
                message: "it does not run as root and there is no user postgres: apt-get install postgresql"
            )
        }
        return unsafe ServerUser(userID: entry.pointee.pw_uid, groupID: entry.pointee.pw_gid, isOther: true)
    }

    /// What to put before a command so that it runs as this user, and gets a signal when the thread that started it
    /// ends: nothing is left running even if we crash. The signal is named as setpriv(1) wants it, such as `INT`.
    package func prefix(deathSignal: String) -> [String] {
        let change = isOther ? ["--reuid=\(userID)", "--regid=\(groupID)", "--clear-groups"] : []
        return ["setpriv"] + change + ["--pdeathsig", deathSignal, "--"]
    }

    /// Throws `.cluster` when a directory above is closed to this user, such as /root.
    func checkCanEnter(_ path: String) throws(PostgresError) {
        guard isOther else { return }
        var parent = path[...]
        while let slash = parent.lastIndex(of: "/"), slash != parent.startIndex {
            parent = parent[..<slash]
            var status = stat()
            guard unsafe stat(String(parent), &status) == 0 else { continue }
            guard status.st_uid != userID, status.st_mode & S_IXOTH == 0 else { continue }
            throw PostgresError(
                .cluster,
                activity: "run PostgreSQL in \(path) as the user postgres",
                message:
                    "that user cannot enter \(parent): choose a directory that is open to it, such as /var/lib/peal"
            )
        }
    }

    /// Gives a file or directory to this user.
    package func own(_ path: String) throws(PostgresError) {
        guard isOther, unsafe chown(path, userID, groupID) != 0 else { return }
        throw PostgresError(
            .cluster,
            activity: "give \(path) to the user postgres",
            message: SystemError.text(errno)
        )
    }
}
