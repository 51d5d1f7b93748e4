import Foundation
import PackagePlugin

/// Builds the files of `sql/migrations` and `sql/queries` into SQLText as string literals.
///
/// SwiftPM's own `embedInCode` writes arrays of bytes, which took the compiler 13 to 19 seconds for 95 kB of SQL; string
/// literals take 0.1 (measured).
@main
struct EmbedSQL: BuildToolPlugin {
    func createBuildCommands(context: PluginContext, target: any Target) async throws -> [Command] {
        let files = try ["migrations", "queries"].flatMap { folder in
            try FileManager.default.contentsOfDirectory(
                at: target.directoryURL.appending(path: folder),
                includingPropertiesForKeys: nil
            )
        }
        .filter { $0.pathExtension == "sql" }
        .sorted { $0.lastPathComponent < $1.lastPathComponent }
        let output = context.pluginWorkDirectoryURL.appending(path: "PackageResources.swift")
        return [
            .buildCommand(
                displayName: "Embed \(files.count) SQL files",
                executable: try context.tool(named: "SQLEmbedder").url,
                arguments: [output.path] + files.map(\.path),
                inputFiles: files,
                outputFiles: [output]
            )
        ]
    }
}
