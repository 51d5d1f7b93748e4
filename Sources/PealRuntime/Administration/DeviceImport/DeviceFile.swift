import Glibc
import Postgres

/// An import file, read and checked on a thread of its own, a chunk at a time.
actor DeviceFile {
    /// Rows in a chunk: one transaction each.
    static let chunkRows = 20_000
    private static let readBytes = 256 * 1024
    /// How long a read may wait before it looks for a signal, in milliseconds.
    private static let signalInterval: Int32 = 50

    /// The size of the file, or nil when it is a pipe.
    nonisolated let byteCount: Int?
    private let path: String
    private let descriptor: Int32
    private let timezones: Set<String>
    private let firstLine: Int
    private let executor: DedicatedThreadExecutor
    private var parser = CSVParser()
    private var reader: DeviceRowReader?
    private var seen = SeenTokens()
    private var bytesRead = 0
    private var hasEnded = false
    /// What the header says; known once the first chunk was read.
    private(set) var header: DeviceHeader?

    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }

    /// Opens a file, or standard input for `-`. Rows that begin before `firstLine` are passed over.
    init(path: String, timezones: Set<String>, firstLine: Int) throws(CommandError) {
        descriptor = unsafe path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw CommandError(.refused, "cannot read it: \(SystemError.text(errno))", at: path)
        }
        let end = lseek(descriptor, 0, SEEK_END)
        byteCount = end > 0 ? Int(end) : nil
        if end > 0 { lseek(descriptor, 0, SEEK_SET) }
        self.path = path
        self.timezones = timezones
        self.firstLine = firstLine
        executor = DedicatedThreadExecutor(name: "peal-import")
    }

    deinit {
        if path != "-" { close(descriptor) }
        executor.stop()
    }

    /// The next rows, or nil at the end of the file. Throws status 4 where the file cannot be read on,
    /// 130 or 143 within 50 ms of a signal.
    func nextChunk() throws(CommandError) -> DeviceChunk? {
        var builder = DeviceChunkBuilder()
        do {
            while !hasEnded, builder.count < Self.chunkRows { try readOn(into: &builder) }
        } catch let error as CSVError {
            throw CommandError(.refused, error.problem, at: "\(path), line \(error.line)")
        } catch let error as CommandError {
            throw error
        } catch {
            throw CommandError(.failure, "\(error)", at: path)
        }
        if header == nil {
            let advice = "a header row and one row per device are expected"
            throw CommandError(.refused, "the file is empty", at: path, advice: advice)
        }
        guard builder.count > 0 else { return nil }
        var chunk = builder.take()
        chunk.bytesRead = bytesRead
        return chunk
    }

    private func readOn(into builder: inout DeviceChunkBuilder) throws {
        // A pipe may be silent for long, and a signal must not wait for its next byte.
        var source = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        let readyCount = unsafe poll(&source, 1, Self.signalInterval)
        let isSilent = readyCount == 0 || readyCount < 0 && errno == EINTR
        try Self.checkInterruption()
        if isSilent { return }
        var buffer = [UInt8](repeating: 0, count: Self.readBytes)
        let count = unsafe buffer.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
        if count < 0 {
            if errno == EINTR { return }
            // What cannot be read at all, such as a directory, was the wrong file to name.
            let isWhole = bytesRead == 0
            throw CommandError(
                isWhole ? .refused : .failure,
                "cannot read it\(isWhole ? "" : " on"): \(SystemError.text(errno))",
                at: path
            )
        }
        bytesRead += count
        if count == 0 {
            // The signal may have ended who writes the pipe, too, and come to us a little later: what it cut off is no row.
            if byteCount == nil { _ = poll(nil, 0, Self.signalInterval) }
            try Self.checkInterruption()
            hasEnded = true
            try parser.finish { row in try take(row, into: &builder) }
        } else {
            try parser.parse(buffer[..<count]) { row in try take(row, into: &builder) }
        }
    }

    private static func checkInterruption() throws(CommandError) {
        try Interruption.check("the rows read last are not imported")
    }

    private func take(_ row: CSVParser.Row, into builder: inout DeviceChunkBuilder) throws {
        guard let reader else {
            let header = try DeviceHeader(row)
            self.header = header
            reader = DeviceRowReader(header: header, timezones: timezones)
            return
        }
        guard row.line >= firstLine else { return }
        let device = reader.read(row)
        builder.add(device, seen: &seen)
        if row.endsWithFile, case .success = device { builder.noteMissingLineEnd(after: row.line) }
    }
}
