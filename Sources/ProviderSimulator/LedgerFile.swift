import Glibc
import Synchronization

/// The ledger as JSON lines in a file: buffered, written each second, when the buffer is large, on demand and at stop.
///
/// A write that fails is reported once on standard error; the ledger in memory goes on.
package final class LedgerFile: Sendable {
    private struct State {
        var buffer: [UInt8] = []
        var writtenAt: Int64 = 0
        var hasFailed = false
    }

    private static let maximumBuffer = 1_048_576
    private let state = Mutex(State())
    private let descriptor: Int32
    private let path: String

    init(path: String) throws(SimulatorError) {
        self.path = path
        descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .system(.file, "opening the ledger file \(path)") }
    }

    deinit { close(descriptor) }

    func append(_ record: RequestRecord) {
        state.withLock { state in
            record.append(to: &state.buffer)
            if state.buffer.count >= Self.maximumBuffer { write(&state) }
        }
    }

    /// Writes what is buffered.
    package func flush() {
        state.withLock { write(&$0) }
    }

    func flushIfOlderThanASecond(now: Int64) {
        state.withLock { state in
            guard now - state.writtenAt >= 1000 else { return }
            state.writtenAt = now
            write(&state)
        }
    }

    private func write(_ state: inout State) {
        var sent = 0
        while sent < state.buffer.count, !state.hasFailed {
            let count = unsafe state.buffer.withUnsafeBytes { bytes in
                unsafe Glibc.write(descriptor, bytes.baseAddress.map { unsafe $0 + sent }, bytes.count - sent)
            }
            if count < 0 {
                guard errno != EINTR else { continue }
                state.hasFailed = true
                let text = SimulatorError.system(.file, "writing the ledger file \(path)").description + "\n"
                _ = unsafe text.withCString { unsafe Glibc.write(STDERR_FILENO, $0, strlen($0)) }
            } else {
                sent += count
            }
        }
        state.buffer.removeAll(keepingCapacity: true)
    }
}

extension RequestRecord {
    /// Adds the record as one line of JSON.
    func append(to buffer: inout [UInt8]) {
        var line = "{\"number\":\(number),\"time_us\":\(receivedAt),\"role\":\"\(role.rawValue)\""
        line += ",\"connection\":\(connection),\"stream\":\(stream),\"token\":\(jsonQuoted(token))"
        let texts: [(String, String?)] = [
            ("topic", topic), ("push_type", pushType), ("priority", priority), ("expiration", expiration),
            ("collapse_id", collapseID), ("id", messageID), ("bearer", bearerHash), ("reason", reason),
        ]
        for case (let name, let value?) in texts { line += ",\"\(name)\":\(jsonQuoted(value))" }
        if validateOnly { line += ",\"validate_only\":true" }
        if let headers {
            for (name, field) in [("method", ":method"), ("path", ":path")] {
                guard let value = headers.first(where: { $0.name == field })?.value else { continue }
                line += ",\"\(name)\":\(jsonQuoted(value))"
            }
            let pairs = headers.map { "[\(jsonQuoted($0.name)),\(jsonQuoted($0.value))]" }
            line += ",\"headers\":[\(pairs.joined(separator: ","))]"
        }
        if let body { line += ",\"body\":\(jsonQuoted(String(decoding: body, as: UTF8.self)))" }
        line += ",\"bytes\":\(payloadBytes),\"status\":\(status)}\n"
        buffer += Array(line.utf8)
    }
}
