internal import COpenSSL
internal import CShims

// Runs one of the library's PEM writers over memory.
enum PEMWriter {
    static func text(_ write: (OpaquePointer) -> Int32) throws(OpenSSLError) -> [UInt8] {
        OpenSSLError.clearQueue()
        guard let bio = unsafe BIO_new(BIO_s_secmem()) else { throw .fromQueue(.libraryFailed, "No memory for PEM") }
        defer { unsafe BIO_free(bio) }
        guard unsafe write(bio) == 1 else { throw .fromQueue(.libraryFailed, "PEM could not be written") }
        var data: UnsafeMutablePointer<CChar>?
        let count = unsafe cshims_bio_get_mem_data(bio, &data)
        guard count > 0, let data = unsafe data else { throw .fromQueue(.libraryFailed, "PEM came out empty") }
        return unsafe Array(UnsafeRawBufferPointer(start: data, count: count))
    }
}
