import Delivery
import PushCore
import TestSupport
import Testing

@Suite struct ContentParseTests {
    private func parse(_ json: String, kind: String = "push") throws -> Content {
        try Content.parse(JSONValue.parse(json), kind: #require(Content.Kind(rawValue: kind)))
    }

    @Test(arguments: ContentCase.accepted)
    func `a content that can be sent is taken`(example: ContentCase) throws {
        _ = try parse(example.json, kind: example.kind)
    }

    @Test(arguments: ContentCase.refused)
    func `a content that cannot be sent is refused by its path`(example: ContentCase) throws {
        let error = try #require(throws: ContentError.self) { try parse(example.json, kind: example.kind) }
        #expect(error.description == example.refusal)
    }

    @Test(arguments: CollapseCase.all)
    func `cases 21 and 186: a collapse id is printable ASCII of at most 64 bytes`(example: CollapseCase) {
        #expect(CollapseID.problem(example.text) == example.problem)
    }

    @Test func `case 13: a badge of 0 is kept, null and absent are none, a text is refused`() throws {
        #expect(try parse(#"{"badge":0}"#).badge == .set(0))
        #expect(try parse(#"{"badge":null,"title":"x"}"#).badge == nil)
        #expect(try parse(#"{"title":"x"}"#).badge == nil)
        #expect(throws: ContentError.self) { try parse(#"{"badge":"3"}"#) }
    }

    @Test(arguments: [
        (#"{"title":"a\u0000b"}"#, "content.title"),
        (#"{"data":{"a\u0000b":1}}"#, "content.data"),
        (#"{"data":{"list":["x","\u0000"]}}"#, "content.data.list[1]"),
    ])
    func `case 144: U+0000 is refused by its path`(json: String, path: String) throws {
        let error = try #require(throws: JSONError.self) { try JSONValue.parse(json) }
        #expect(error.path == path)
        #expect(error.problem == "holds U+0000, which cannot be stored")
    }

    @Test func `a language is found by its tag, then by shorter ones, then the default`() throws {
        let content = try parse(
            #"{"title":{"default":"d","pt":"p","pt-BR":"b","zh-Hant":"h"},"body":{"default":"D","de":"G"}}"#
        )
        let templates = NotificationTemplates(
            content,
            provider: .apns(bundleID: "com.example"),
            settings: MessageSettings(expiration: .immediate)
        )
        func body(_ locale: String) -> String {
            let template = templates.all[templates.index(forLocale: Array(locale.utf8))]
            return String(decoding: template.renderBody(token: [], secondsLeft: 0), as: UTF8.self)
        }
        #expect(content.isLocalized)
        #expect(body("pt_BR.UTF-8") == #"{"aps":{"alert":{"title":"b","body":"D"}}}"#)
        #expect(body("PT-pt") == #"{"aps":{"alert":{"title":"p","body":"D"}}}"#)
        #expect(body("zh-Hant-TW") == #"{"aps":{"alert":{"title":"h","body":"D"}}}"#)
        #expect(body("zh-Hans") == #"{"aps":{"alert":{"title":"d","body":"D"}}}"#)
        #expect(body("de-AT") == #"{"aps":{"alert":{"title":"d","body":"G"}}}"#)
        #expect(body("") == #"{"aps":{"alert":{"title":"d","body":"D"}}}"#)
        #expect(body("\u{FF}\u{0}-x") == #"{"aps":{"alert":{"title":"d","body":"D"}}}"#)
    }

    @Test func `a call makes no notification`() throws {
        let content = try parse(#"{"call":{"event":"incoming"},"data":{"a":"b"}}"#, kind: "call")
        for provider in [NotificationTemplates.Provider.apns(bundleID: "x"), .fcm(validateOnly: false)] {
            let settings = MessageSettings(expiration: .immediate)
            let templates = NotificationTemplates(content, provider: provider, settings: settings)
            #expect(templates.all.map(\.fault) == [.nothingToSend])
        }
    }

    @Test func `a message id is derived from job and device, so a repeat carries the same one`() throws {
        let job = JobID(try #require(UUIDValue("6f1d3c52-0d0b-4f7e-9a57-1e0f5f2f9b10")))
        #expect(MessageID.make(job: job, device: DeviceID(0)).description == "6f1d3c52-0d0b-4f7e-9a57-1e0f5f2f9b10")
        #expect(MessageID.make(job: job, device: DeviceID(1)).description == "6f1d3c52-0d0b-4f7e-9a57-1e0f5f2f9b11")
        #expect(MessageID.make(job: job, device: DeviceID(-1)).description == "6f1d3c52-0d0b-4f7e-65a8-e1f0a0d064ef")
    }
}
