"""The English rules about the speaker and the people near to them, as tables for `rules.parse_rules`."""

from __future__ import annotations

from typing import Final

SPEAKER_RULES: Final = r"""
fact | home | ends | no longer lives in {v}
    I (?:no longer live|used to live|don't ~live) in (?=.{1,60}(?<!\w)(?:any ?more|any longer)
    |(?<=no longer live in )|(?<=used to live in ))
fact | home | single place | lives in {v}
    (?:I|we) ~(?:live|reside) (?:in|near|outside|at)_
fact | home | single place | lives in {v}
    I'm ~(?:living|based|located|residing|settled) (?:in|near|out of)_
fact | home | single place | lives in {v}
    I've (?:been living|lived) in (?=.{1,60}(?:since|for|all my life|my whole life))
fact | home | single place | moved to {v}
    (?:I|we)(?:'ve|'re| have)? ~(?:moved|relocated) (?:back |over |house |home )?(?:from [\w' ]{1,30} )?to_
fact | home | single place | lives in {v}
    my (?:home|house|apartment|flat) is in_
fact | address | single clause | address {v}
    my (?:home |postal |mailing |new )?address is_
fact | origin | single place | from {v}
    (?:I'm ~(?:originally )?from|I ~(?:come|hail) from|I was born and raised in|I was (?:born|raised) in
    |I grew up in) (?=\D)
fact | employer | ends | no longer works at {v}
    I (?:no longer work|quit|left|resigned from) (?:my (?:job|position|role) )?(?:(?:at|for|with) )?(?=(?-i:[A-Z]))
fact | employer | ends | no longer works at {v}
    I don't work (?:at|for) (?=.{1,60}any ?(?:more|longer))
fact | employer | single proper | works at {v}
    I ~work (?:as an? (?P<job>[\w -]{2,40}?) )?(?:at|for|with)_
fact | employer | single proper | works at {v}
    I'm ~(?:working|employed|interning) (?:as an? [\w -]{2,40}? )?(?:at|for|by|with)_
fact | employer | single proper | works at {v}
    I've ~(?:been working|worked) (?:at|for) (?=.{1,60}\b(?:since|for)\b)
fact | employer | single proper | works at {v}
    I've? ~(?:joined|(?:started|got|landed|accepted
    |took) (?:working |work |a new job |a job |the job |a new position |an offer |a position |the offer |a role )?
    (?:at|from|with))_
fact | employer | single proper | works at {v}
    I'm ~(?:an? |the )(?:[\w-]+ ){0,3}(?:<JOBS>) (?:at|for|with)_
fact | job | single | works as {v}
    I ~work as (?:an? |the )?
fact | job | single | works as {v}
    I'm ~(?:working|employed) as (?:an? |the )?
fact | job | single job | is a {v}
    I'm ~(?:an? |the )
fact | job | single job | works as {v}
    I've? ~(?:(?:been |got |was )?promoted to|became|become|started (?:a new job )?as) (?:an? |the )?
fact | job | single short | job: {v}
    my (?:job|profession|occupation|job title|role|title|position) is (?:an? |the |as an? )?
fact | job
    I(?:'ve)? ~(?:run|own|manage|lead|founded|started|opened|have) (?=(?:an?|my own|the|our|my|two
    |three) (?:[\w'-]+ ){0,3}?(?:company|business|shop|restaurant|store|startup|start-up|agency|clinic|team|farm
    |school|blog|channel|podcast|studio|bakery|caf[eé]|firm|bookstore|non-?profit|gym|department|hotel|consultancy
    |charity)\b)
fact | work | clause short | works {v}
    I ~work (?=from home|remotely|part[- ]time|full[- ]time|night shifts?|in [a-z]|on )
fact | studies | | studies {v}
    I(?:'m| am)? ~(?:stud(?:y|ying|ied)|major(?:ing|ed)? in) (?!for\b|hard|tonight|all|today|a lot|in the|the same)
fact | studies | clause
    I(?:'m| am| have|'ve got| did| got)? ~(?:doing|pursuing|finishing|writing|completing|taking|earning)? ?(?=(?:an?
    |my) (?:\w+ )?(?:BSc|MSc|BA|MA|PhD|MBA|master's|bachelor's|doctorate|(?:associate )?degree|diploma|dissertation
    |thesis)\b)
fact | studies | clause
    I ~graduated (?:from|in|with)_
fact | name | single person | is called {v}
    my (?:full |first |last |real |given )?name is_
fact | name | single person | is called {v}
    (?:(?:hi|hello|hey)(?: there| all| everyone)?[,!.]? |this is me,? )I'm (?=(?-i:[A-Z]))
fact | name | single person | is called {v}
    I'm (?P<v>(?!(?:<NATIONS>)\b|Team |Lost\b|Gemini\b|(?-i:[A-Z]{3,}\b)
    |\w+(?:ish|ese|ian|ean|ic|ist|dox|less|ful|ous)\b)
    (?-i:[A-Z][\w'-]{1,20}(?: [A-Z][\w'-]{1,20}){0,2}))(?=[,.!]|$)
preference | form of address | single few | wants to be called {v}
    (?:please |you can |just |everyone |people ){0,2}call(?:s)? me (?!when|if|at|on|back|later|tomorrow|crazy
    |a |an |the )
fact | nationality | single | is {v}
    I'm ~(?:an? )?(?P<v>(?:half[- ])?(?:<NATIONS>))(?=[,.!;]|$| (?:and|but|citizen|national|by))
fact | age | single | is {v} years old
    I'm ~(?P<v>\d{1,3})(?: years? old| ?y/?o\b| yrs? old|(?=[,.!;)]|$| and\b))
fact | age | single
    I(?:'m| am|ve|'ve)? ~(?:turn|turned|turning) (?P<v>\d{1,3})\b(?! (?:into|percent|%))
fact | birthday | single dated | born {v}
    (?:my birthday is (?:on |in )?|my (?:date of birth|dob|birth date)(?: is
    |:) |I was born on |I was born in (?=\d))
fact | allergy | ends | not allergic to {v}
    I'm (?:not|no longer) (?:actually |really )?allergic to_
fact | allergy | list | allergic to {v}
    I'm ~(?:severely |deathly |highly |very |slightly |mildly )?(?:allergic|intolerant) to_
fact | allergy | | has a {v} allergy
    I have (?:an? )?(?:severe |bad |serious |mild )?(?P<v>[\w -]{3,30}?) (?:allerg(?:y|ies)|intolerance)
fact | allergy | | is {v}
    I'm ~(?P<v>(?:lactose|gluten|histamine)[- ]intolerant|c(?:o?)eliac)
fact | diet | ends | no longer {v}
    I'm (?:not|no longer) (?:an? )?(?P<v>vegan|vegetarian|pescatarian|keto|halal|kosher)
fact | diet | ends | no longer eats {v}
    I don't eat (?=.{1,60}any ?(?:more|longer))|I (?:no longer|stopped|quit|gave up) eat(?:ing)?_
fact | diet | single | is {v}
    I'm ~(?:an? |a strict )?(?P<v>vegan|vegetarian|pescatarian|flexitarian|(?:on )?(?:a )?(?:keto|paleo|low[- ]carb
    |gluten[- ]free)(?: diet)?)\b
fact | diet | single | is {v}
    I've? ~(?:went|gone|turned|became|become|going|go|been|switched to) (?:an? )?(?P<v>vegan|vegetarian|pescatarian
    |keto|gluten[- ]free)\b
fact | diet | list liked | does not eat or drink {v}
    I ~(?:don't|never|can't) (?:eat|drink|consume|have (?=(?:lactose|gluten|dairy|nuts|sugar|alcohol|caffeine|pork
    |meat|eggs|seafood|shellfish|soy|wheat)\b)) ?(?!<ONLY_THEN>)
fact | diet | clause
    I ~(?=(?:don't|never|can't) (?:eat|drink|consume) \w)(?=<ONLY_THEN>)
fact | diet | | eats {v}
    I ~(?:only eat|eat only|follow a|keep|stick to a) (?=(?:halal|kosher|\w+[- ]free|low|keto|strict|plant|vegan
    |vegetarian|mediterranean))
fact | health | | has {v}
    I(?:'ve| have| suffer from| was diagnosed with|'ve been diagnosed with| have been diagnosed with
    |'m recovering from) (?:been )?(?:(?:mild|severe|chronic|type [12]|an?) ){0,2}(?P<v>diabetes|asthma|adhd|autism
    |migraines?|anxiety|depression|hypertension|high blood pressure|arthritis|epilepsy|insomnia|eczema|dyslexia
    |celiac disease|back pain|cancer|ibs|pcos|anemia)
fact | health | | diagnosed with {v}
    (?:I was|I've been|I got) (?:recently |just )?diagnosed with_
fact | health | | is {v}
    I'm ~(?P<v>diabetic|asthmatic|colou?r[- ]?blind|pregnant|deaf|blind|dyslexic|autistic|left-handed)\b
fact | employer | ends | no longer works at {v}
    I've? ~(?:lost|quit|left) my job (?:at|with)_
fact | owns | ends | no longer has {v}
    I've? ~(?:sold|gave away|got rid of) my_
fact | owns | list | has {v}
    (?:I|we)(?:'ve got| have got| ~have) (?=(?:an?|two|three|four|five|six|\d+|twin) (?:[\w-]+ ){0,3}?
    (?:<POSSESSIONS>)\b)
fact | owns | owned | has {v}
    I ~(?:own|drive|ride) (?=an?|my|two|the)
fact | owns | clause goal | {how} {v}
    (?:I|we)(?:'ve)? ~(?P<how>bought|purchased|adopted) (?=an?\b|my\b|two\b|some\b|the\b|our\b|another\b|new\b)
fact | event | clause event
    (?:I|we|my [\w' ]{2,30}? and I) (?!\w+(?: in| to| for| on)? (?:last|yesterday|today|this)\b)(?=<HAPPENED>)
    (?!started (?:a new job|working))
fact | event | clause happened
    (?:I|we)(?:'ve)? (?:recently|just|finally) (?=<LIFE_EVENT>)(?!(?:finished|started|began) (?:to feel|feeling
    |work|working|eating|dinner|lunch|breakfast|reading|noticing|getting|thinking|seeing|having)\b)
fact | activity | ends clause
    I've? ~(?:stopped|quit|gave up|given up) (?=\w+ing\b)(?!<PASSING>)
fact | activity | ends
    I'm (?:no longer|not(?=.{1,60} any ?(?:more|longer)\b)) (?=\w+ing\b)(?!<PASSING>)
fact | activity | clause goal
    (?:I|we)(?:'ve| have) ~been ~(?=\w+ing\b)(?!<PASSING>)
fact | {x} | clause | {x}: {v}
    (?:<COMES_TO>(?:an?|this|one|another|the|(?:my|our)(?! (?:[\w-]+ ){1,4}(?<!is )called\b))|my(?! (?:[\w-]+ ){1,4}
    (?<!is )called\b)(?! (?:[\w-]+ ){0,3}(?:company|startup|band) named\b)) (?:(?!<NOT_BETWEEN>)[\w-]+ ){0,3}?
    (?P<x><TITLED>)(?:,? (?:that's|that is|which is))? (?:called|named|titled)
    [ ]["'“‘«]?(?P<v>(?-i:[A-Z])[\w-]*(?: (?:(?:of|the|and|in|to|a|for) ){0,2}(?-i:[A-Z\d])[\w-]*){0,5})
fact | relationship | single | is {v}
    I'm ~(?P<v>single|married|engaged|divorced|widowed|separated|in a (?:long-distance )?relationship|dating \w+)\b
    (?! (?:parent|mom|dad|mother|to (?:the idea|my work)|out|thing))
fact | relationship | single | {v}
    (?:I|we)(?:'ve|'re| are)? ~(?:got|getting|gotten|been) (?P<v>married|engaged|divorced)\b
fact | relationship | single | broke up
    I ~(?P<v>broke up)(?: with)?\b
fact | language | clause proper | speaks {v}
    (?:I|we) ~speak (?!to\b|with\b|for\b|up\b|about\b|at\b|my\b|from\b)(?:both )?
    (?:fluent |some |a little |a bit of )?
fact | language | clause | speaks {v}
    I'm (?:also )?(?:fluent|bilingual) in_
fact | language | | speaks {v}
    my (?:native|first|mother|second|home) (?:language|tongue) is_
fact | learning | | learning {v}
    I(?:'m| am|m|'ve been| have been|'ve started| started) ~(?:learning|taking (?:lessons|classes|a course) in
    |teaching myself) (?!that\b|how\b|about\b|more\b|so\b|a lot\b|from\b)
fact | children
    (?:I|we) (?:don't have any|have no) (?=kids|children|siblings|brothers|sisters|pets)
fact | children | | is {v}
    I'm ~(?=(?:an? )?(?:(?:single|proud|working|stay-at-home|new) )?(?:mom|mum|dad|mother|father|parent|grandmother
    |grandfather) (?:of|to)\b)
fact | health | clause
    I(?:'ve)? ~(?:wear|use|been wearing|been using|need) (?=(?:an? |my )?(?:glasses|contact lenses|contacts
    |hearing aids?|wheelchair|braces|insulin|inhaler|pacemaker|cane|prosthe\w+)\b)
fact | health | clause
    I ~(?:take|am taking|'m taking) (?=(?:an? )?(?:insulin|medication|antibiotics|blood pressure|antidepressants
    |metformin|statins|pills)\b)
fact | job | single clause
    I ~(?=teach (?!you|him|her|them|me)\w+)
fact | job | single
    I(?:'m| am|'ve been| have been) ~the (?=(?:head|director|chief|vice president|vp|president|chair|deputy
    |secretary|manager|owner|founder|lead|leader|ceo|cto|cfo)\b)
fact | habit | clause
    I(?:'ve| have) been (?!feeling|thinking|wondering|waiting|trying|meaning|looking|having|doing (?:well|good|great
    |fine|ok)|getting|being|living|working|experiencing|keeping|wanting|finding|enjoying|loving)(?=\w+ing .{2,60}\b
    (?:for (?:\w+ ){1,3}(?:years?|months?|weeks?|decades?)|since)\b)
fact | hobby | list | hobby: {v}
    my (?:main |biggest |favou?rite )?(?:hobby|hobbies|passion|pastime) is_
fact | hobby | list liked | into {v}
    (?:I'm (?:really |very |super |big )?(?:into|passionate about))_
fact | hobby | list liked | plays {v}
    I ~(?:play|practi[cs]e) (?:the )?(?=\w+(?:[,.]|$| (?:and|in|for|every|on|with)\b))
fact | habit | clause
    I ~(?=(?:work out|exercise|run|jog|swim|cycle|bike|commute|meditate|wake up|get up|go to (?:bed|the gym|yoga
    |church)|volunteer|smoke|drink|walk|attend|practice|train) .{0,60}(?:every|each|daily|weekly|per (?:day|week)
    |a (?:day|week)|(?:once|twice|times) a|on (?:mon|tues|wednes|thurs|fri|satur|sun)days|at \d|in the mornings?))
preference | theme | single | prefers {v} mode
    (?:I(?:'d|'ve| would|'m)? ~(?:prefer|like|love|use|want|switched (?:back )?to|going (?:back )?to|went back to
    |using|rather use|went with)|(?:please )?(?:use|set|switch(?: me)?(?: back)? to|keep|enable
    |turn on)) (?:using |the |to use |it (?:in|to) |everything in |my \w+ in )?(?P<v>dark|light
    |high[- ]contrast)[- ]?(?:mode|theme|colou?rs?)
preference | prefers | clause explicit | prefers {v}
    (?:I'd|I|we) ~prefer (?:if )?(?!not to say)
preference | prefers | clause | would rather {v}
    I'd (?:much )?rather_
preference | likes | ends | no longer likes {v}
    I (?:no longer (?:like|love|enjoy)|don't (?:like|love|enjoy) (?=.{1,60}any ?(?:more|longer))) ?
preference | dislikes | list liked | dislikes {v}
    I ~(?:don't (?:really |particularly )?(?:like|enjoy|care for)|dislike|hate|can't stand|detest|despise|avoid
    |am not (?:a )?(?:big |huge )?fan of|'m not (?:a )?(?:big |huge )?(?:fan of|into|keen on|fond of)) (?!that|how
    |when|to (?:bother|interrupt|brag|say|be|sound))
preference | likes | list liked | likes {v}
    I ~(?:like|love|adore|enjoy) (?!that|how|when|to think|to know|to see|to hear)
preference | likes | clause
    I ~(?:like|love|take|prefer|drink|want) (?=my (?:coffee|tea|eggs|steak|food|meetings?|code|answers?|emails?
    |reports?|drinks?|pizza|burgers?|toast)\b)
preference | likes | list liked | likes {v}
    I'm ~(?:an? )?(?:big |huge |massive |real )?(?:fan of|fond of|keen on|crazy about|obsessed with|(?:coffee
    |tea) (?=lover|person))
preference | favourite {x} | single | favourite {x}: {v}
    my (?:all[- ]time |absolute |new |current )?favou?rite (?P<x>[\w -]{2,30}?) is_
preference | favourite {x} | single | favourite {x}: {v}
    (?P<v>[\w' -]{2,40}) (?:is|has always been) my (?:all[- ]time |absolute |new |current )?favou?rite (?P<x>[\w -]{
    2,30}?)(?=[,.!]|$| (?:of|because|since|and|but|so)\b)
fact | household | clause short
    I ~(?=live (?:alone|with |on my own|together)|share (?:the|an?|my) (?:flat|apartment|house|room|place|office) with)
fact | size | clause dated
    I ~(?=(?:weigh|measure|wear(?: a)? size|take(?: a)? size|am \d[\d.,]* ?(?:m|cm|ft|feet|kg)\b
    |'m \d[\d.,]* ?(?:m|cm|ft|feet|kg)\b) )
fact | habit | clause
    (?:I|we) ~(?=(?:can't|don't|never)(?: learned (?:how )?to| know how to)? (?:drive|swim|smoke|gamble|cook|fly|ski
    |own (?:an?|any)|have an? (?:car|licen[sc]e|passport|smartphone|tv|bike))\b)
fact | fear | clause goal
    I'm ~(?=(?:afraid|scared|terrified|frightened) of \w+)(?!\w+ of (?:losing|hurting|what|being|making))
fact | past | clause short
    I (?=used to (?:smoke|play|teach|study|own|run|drink|be an?|work) )
fact | past | clause
    I was (?=an? (?:[\w-]+ ){0,3}(?:<JOBS>) (?:for|until|in|at|before)\b)
fact | health | clause
    I(?:'ve)? ~(?=(?:broke|broken|sprained|tore|dislocated) my |had (?:surgery|an operation|a stroke
    |a heart attack|a baby
    |twins|a miscarriage|a concussion)\b)
preference | likes | clause
    I'm (?:more of )?(?=an? (?:\w+ ){1,2}?(?:person|lover|fan|guy|girl|type|addict|enthusiast|buff
    |nerd)\b)(?!an? (?:bad|good
    |new|different|nice|changed|better|private|big fan|huge fan))
preference | prefers | clause explicit
    (?:I|we) (?=(?:value|favou?r|tend to (?:choose|pick|go for|prefer)|usually (?:choose|pick
    |go for|order|take)
    |always (?:choose|pick|order|buy|take|use|fly|book)|only (?:buy|drink|eat|use|wear|read|watch|listen to|fly)) \w)
    (?!\w+ (?:your|you|it|that|this|the (?:help|advice|support|tips|info))\b)
preference | dislikes | | finds {v}
    I find (?=[\w -]{3,40}? (?:boring|annoying|tedious|irritating|distracting|ugly|exhausting|disgusting|overrated)\b)
preference | likes
    ^(?!it|that|this)(?P<v>[\w' -]{2,40}) is my (?:go-to|thing|favou?rite|jam|cup of tea)\b
"""
# About relatives, friends and pets. Their slots begin with the relation, so they do not mix with the speaker's own.
RELATIVE_RULES: Final = r"""
fact | {rel} {who}: home | single place | *
    my RELNAME ~(?:lives?|resides?|is (?:living|based)|(?:has )?moved) (?:in|to|near)_
fact | {rel} {who}: employer | single proper | *
    my RELNAME ~(?:works?|is working|has worked) (?:as an? [\w -]{2,40}? )?(?:at|for)_
fact | {rel} {who}: job | single job | *
    my RELNAME (?:(?:works? as|became|is) )(?:an? |the )
fact | {rel} {who}: age | single | *
    my RELNAME (?:is|are|(?:just )?turned|will be|turns) (?P<v>\d{1,3})\b(?: years? old)?
fact | {rel} {who}: birthday | single | *
    my REL(?:,? (?P<who>(?-i:[A-Z])[\w-]{1,20}))?'s birthday is (?:on |in )?
fact | {rel} {who}: allergy | list | *
    my RELNAME ~(?:is|are) (?:also |severely )?allergic to_
fact | {rel}: name | single person | *
    my REL(?:'s name)?(?:'s| is| are) (?:called |named )?(?=(?-i:[A-Z]))
fact | {rel}: name | single person | {rel}: {v}
    (?P<v>(?-i:[A-Z][\w'-]{1,20})) is my REL(?=[,.!]|$| and\b)
fact | {rel}: name | person | {rel}: {v}
    (?:this is |meet )?my REL,? (?P<v>(?-i:[A-Z][\w'-]{1,20}))(?=,? (?:is|was|has|will|loves?|likes?|just|who|works?
    |lives?|got|wants?|needs?)\b|[,.]|$)
fact | {rel} {who}: about | clause lasting | *
    my RELNAME ~(?=(?:had (?!a (?:tough|hard|great|good|bad|rough|blast))|is (?:moving|getting|starting|having
    |studying|working|living|expecting|visiting|coming|turning|learning)|bought|won|loves?|likes?|hates?|prefers?
    |enjoys?|speaks?|studies|plays?|owns?|collects?|teaches|started|starts|moved|goes to|attends|has (?!been (?:so
    |really|very))|turned|turns|works|finished|retired|runs|lives|can't|doesn't (?:eat|drink|like|speak)
    |got (?:married|engaged|divorced|promoted|accepted)|graduated|passed away|died|was born|(?:gave|invited|taught
    |introduced|took|showed) (?:me|us)|recommended|joined|opened|wrote|built|adopted|published|is (?:vegan|vegetarian
    |pregnant|retired|married|getting married|diabetic|an? ))\b)
fact | {pet} name | person | {pet}: {v}
    I ~have an? (?:[\w-]+ ){0,3}?(?P<pet>dog|cat|puppy|kitten|parrot|rabbit|horse|hamster|daughter|son|brother
    |sister)\b[\w ]{0,20}?(?: named| called| whose name is|, ) ?(?=(?-i:[A-Z]))
"""
