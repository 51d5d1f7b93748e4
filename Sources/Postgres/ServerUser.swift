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
