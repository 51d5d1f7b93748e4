import Glibc

/// Where the programs of a PostgreSQL server are, and as whom they run.
struct ServerBinaries: Equatable {
    let directory: String

    /// The newest version below `root`, where Debian has them; a data directory that exists fixes the version. Where
    /// `root` has none at all, the one in PATH.
    static func find(dataVersion: String?, root: String = "/usr/lib/postgresql") throws(PostgresError) -> ServerBinaries
    {
        let versions = FileSystem.names(in: root).filter { isComplete("\(root)/\($0)/bin") }
        if let dataVersion {
            if versions.contains(dataVersion) { return ServerBinaries(directory: "\(root)/\(dataVersion)/bin") }
        } else if let newest = versions.max(by: { Double($0) ?? 0 < Double($1) ?? 0 }) {
            return ServerBinaries(directory: "\(root)/\(newest)/bin")
        }
        let path = unsafe getenv("PATH").map { unsafe String(cString: $0) } ?? ""
        if versions.isEmpty, let directory = path.split(separator: ":").map(String.init).first(where: isComplete) {
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
