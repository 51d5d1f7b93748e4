import Glibc

/// Where the programs of a PostgreSQL server are, and as whom they run.
struct ServerBinaries: Equatable {
    let directory: String

    /// The newest version below `root`, or the one in PATH. A data directory that exists fixes the version.
    static func find(dataVersion: String?, root: String = "/usr/lib/postgresql") throws(PostgresError) -> ServerBinaries
    {
        let versions = FileSystem.names(in: root).filter { isComplete("\(root)/\($0)/bin") }
        if let dataVersion {
            if versions.contains(dataVersion) { return ServerBinaries(directory: "\(root)/\(dataVersion)/bin") }
        } else if let newest = versions.max(by: { Double($0) ?? 0 < Double($1) ?? 0 }) {
            return ServerBinaries(directory: "\(root)/\(newest)/bin")
        }
        let path = unsafe getenv("PATH").map { unsafe String(cString: $0) } ?? ""
        if let directory = path.split(separator: ":").map(String.init).first(where: isComplete) {
            return ServerBinaries(directory: directory)
        }
        let package = dataVersion.map { "postgresql-\($0)" } ?? "postgresql"
        throw PostgresError(
            .cluster,
            activity: "find the programs of PostgreSQL",
            message: "there are none below \(root) or in PATH: apt-get install \(package)"
        )
    }

    private static func isComplete(_ directory: String) -> Bool {
        FileSystem.exists("\(directory)/postgres") && FileSystem.exists("\(directory)/initdb")
    }
}

/// The user that the server runs as: ourselves, or `postgres` when we are root, which PostgreSQL refuses.
struct ServerUser: Sendable {
    let userID: uid_t
    let groupID: gid_t
    let isOther: Bool

    static func choose() throws(PostgresError) -> ServerUser {
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
    /// ends: nothing is left running even if we crash.
    func prefix(deathSignal: String) -> [String] {
        let change = isOther ? ["--reuid=\(userID)", "--regid=\(groupID)", "--clear-groups"] : []
        return ["setpriv"] + change + ["--pdeathsig", deathSignal, "--"]
    }

    /// Gives a file or directory to this user.
    func own(_ path: String) throws(PostgresError) {
        guard isOther, unsafe chown(path, userID, groupID) != 0 else { return }
        throw PostgresError(
            .cluster,
            activity: "give \(path) to the user postgres",
            message: SystemError.text(errno)
        )
    }
}
