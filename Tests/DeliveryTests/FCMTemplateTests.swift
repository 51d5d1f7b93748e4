import Delivery
import PushCore
import Testing

@Suite struct FCMTemplateTests {
    private func make(
        _ json: String,
        expiration: MessageSettings.Expiration = .at(epochSeconds: 1_772_449_200),
        collapseID: String? = nil,
        validateOnly: Bool = false
    ) throws -> NotificationTemplate {
        let templates = NotificationTemplates(
            try Content.parse(JSONValue.parse(json)),
            provider: .fcm(validateOnly: validateOnly),
            settings: MessageSettings(expiration: expiration, collapseID: collapseID)
        )
        return try #require(templates.all.first)
    }

    private func body(
        _ template: NotificationTemplate,
        token: String = "t:APA91b",
        secondsLeft: Int64 = 3_600
    ) -> String {
        String(decoding: template.renderBody(token: Array(token.utf8), secondsLeft: secondsLeft), as: UTF8.self)
    }

    @Test func `a full content becomes the message that Google documents`() throws {
        let template = try make(
            #"""
            {"title":"Ann","subtitle":"now","body":"Lunch?","badge":3,"sound":"ding","android_channel":"chat",
             "icon":"ic_chat","color":"#1a2b3c","data":{"m":"1881"},"url":"https://example.com/c/42",
             "image":"https://example.com/ann.png","actions":[{"id":"reply","title":"Reply"}]}
            """#,
            collapseID: "c42"
        )
        #expect(
            body(template)
                == #"{"message":{"notification":{"title":"Ann","body":"Lunch?","image":"https://example.com/ann.png"},"#
                + #""data":{"m":"1881","url":"https://example.com/c/42","#
                + #""actions":"[{\"id\":\"reply\",\"title\":\"Reply\"}]"},"#
                + #""android":{"ttl":"3600s","priority":"HIGH","collapse_key":"c42","#
                + ##""notification":{"icon":"ic_chat","color":"#1a2b3c","sound":"ding","channel_id":"chat","##
                + #""tag":"c42","notification_count":3}},"token":"t:APA91b"}}"#
        )
        #expect(template.headers.isEmpty)
    }

    @Test func `case 8: data values become texts, and keep their types on iOS`() throws {
        let template = try make(#"{"data":{"order_id":21465,"vip":true,"meta":{"a":1},"f":1.0,"s":"x"}}"#)
        #expect(
            body(template)
                == #"{"message":{"data":{"order_id":"21465","vip":"true","meta":"{\"a\":1}","f":"1.0","s":"x"},"#
                + #""android":{"ttl":"3600s","priority":"NORMAL"},"token":"t:APA91b"}}"#
        )
    }

    @Test func `case 12: a data key that the provider takes is not blocked`() throws {
        #expect(body(try make(#"{"data":{"notification":"x"}}"#)).contains(#""data":{"notification":"x"}"#))
    }

    @Test func `case 17: a ttl of 0 is 0s for every recipient`() throws {
        let template = try make(#"{"title":"x"}"#, expiration: .immediate)
        #expect(body(template, secondsLeft: 99).contains(#""ttl":"0s""#))
        #expect(!template.body.contains(.secondsLeft))
    }

    @Test(
        arguments: [
            (3_600, "3600s"), (2_419_200, "2419200s"), (2_419_201, "2419200s"), (2_592_000, "2419200s"), (0, "0s"),
            (-5, "0s"),
        ] as [(Int64, String)]
    )
    func `cases 18 and 19: the ttl is the seconds left, never over 28 days`(left: Int64, ttl: String) throws {
        #expect(body(try make(#"{"title":"x"}"#), secondsLeft: left).contains(#""ttl":"\#(ttl)""#))
    }

    @Test(arguments: 1...6)
    func `case 25: each collapse id goes out as it is`(number: Int) throws {
        let text = body(try make(#"{"data":{"a":"b"}}"#, collapseID: "k\(number)"))
        #expect(text.contains(#""collapse_key":"k\#(number)""#))
        #expect(!body(try make(#"{"data":{"a":"b"}}"#)).contains("collapse_key"))
    }

    @Test func `case 23: the collapse id is the collapse key, and the tag of what is shown`() throws {
        let text = body(try make(#"{"title":"x"}"#, collapseID: "order-7"))
        #expect(text.contains(#""collapse_key":"order-7","notification":{"tag":"order-7"}"#))
    }

    @Test func `a token is escaped and cannot change the message`() throws {
        let text = body(try make(#"{"title":"x"}"#), token: #"a"},"topic":"all\"#)
        #expect(text.hasSuffix(#""token":"a\"},\"topic\":\"all\\"}}"#))
        #expect(throws: Never.self) { try JSONValue.parse(text) }
    }

    @Test func `validate only is said beside the message`() throws {
        #expect(
            body(try make(#"{"title":"x"}"#, validateOnly: true)).hasSuffix(
                #""token":"t:APA91b"},"validate_only":true}"#
            )
        )
    }

    @Test func `the size is the message without its token, with the longest ttl`() throws {
        let template = try make(#"{"title":"x"}"#, collapseID: "c")
        let message =
            #"{"notification":{"title":"x"},"android":{"ttl":"2419200s","priority":"HIGH","collapse_key":"c","#
            + #""notification":{"tag":"c"}}}"#
        #expect(template.payloadBytes == message.utf8.count)
    }

    @Test func `case 1: a message of 4096 bytes is sent, one of 4097 is a fault`() throws {
        let frame = try make(#"{"body":"x"}"#).payloadBytes - 1
        #expect(try make(#"{"body":"\#(String(repeating: "A", count: 4_096 - frame))"}"#).fault == nil)
        #expect(
            try make(#"{"body":"\#(String(repeating: "A", count: 4_097 - frame))"}"#).fault
                == .tooLarge(payloadBytes: 4_097, limit: 4_096)
        )
    }

    @Test func `the raw part merges into the message`() throws {
        let template = try make(
            #"{"title":"x","data":{"a":"1"},"fcm":{"data":{"b":"2","a":null},"notification":{"title":"raw"},"#
                + #""android":{"direct_boot_ok":true},"fcm_options":{"analytics_label":"l"}}}"#
        )
        #expect(
            body(template)
                == #"{"message":{"notification":{"title":"raw"},"data":{"b":"2"},"fcm_options":{"analytics_label":"l"},"#
                + #""android":{"ttl":"3600s","priority":"HIGH","direct_boot_ok":true},"token":"t:APA91b"}}"#
        )
    }

    @Test func `a badge without text is data, since FCM shows no badge alone`() throws {
        #expect(
            body(try make(#"{"badge":0}"#))
                == #"{"message":{"data":{"badge":"0"},"android":{"ttl":"3600s","priority":"NORMAL"},"token":"t:APA91b"}}"#
        )
    }

    @Test(arguments: [#"{"sound":"ding"}"#, #"{"subtitle":"x"}"#, #"{"apns":{"aps":{"alert":"x"}}}"#])
    func `what FCM cannot carry is nothing for the channel`(json: String) throws {
        #expect(try make(json).fault == .nothingToSend)
    }

    @Test func `a priority is obeyed`() throws {
        #expect(body(try make(#"{"title":"x","priority":"normal"}"#)).contains(#""priority":"NORMAL""#))
        #expect(body(try make(#"{"available":true,"priority":"high"}"#)).contains(#""priority":"HIGH""#))
    }
}
