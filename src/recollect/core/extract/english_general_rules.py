"""The English rules about things, open points, decisions, goals and orders, as tables for `rules.parse_rules`."""

from __future__ import annotations

from typing import Final

# Facts about things, and open points.
THING_RULES: Final = r"""
fact | event | clause happened
    (?:just )?<BACK_THEN>,? (?:my [\w' ]{2,30}? and I|I|we) (?:also |finally |just )?(?=<HAPPENED>)
fact | phone | single | phone {v}
    (?:my (?:phone|mobile|cell|whatsapp|telephone|work|new|contact)? ?(?:phone )?number(?: is|:) |(?:you can )?
    (?:call|reach|text) me (?:at|on) (?=\+?[\d(]))(?P<v>\+?[\d][\d ()./-]{5,20}\d)
fact | email | single | e-mail {v}
    (?:my (?:work |new |personal |private )?e-?mail(?: address)?(?: is|:)|(?:you can )?(?:reach|e-?mail|contact
    |write to) me (?:at|on|via)|send (?:it|them|everything) to) (?P<v>[\w.+-]{1,64}@[\w-]{1,60}\.[\w.]{2,40}\w)
fact | phone | single | phone {v}
    (?:I(?:'ve| have)? (?:just )?(?:got|have) a new (?:phone |mobile |cell )?number[,:;]? (?:it's|its|it is)?
    |(?:it's|here's) my (?:new )?number:?) ?(?P<v>\+?[\d][\d ()./-]{5,20}\d)
fact | email | single | e-mail {v}
    I(?:'ve| have)? (?:just )?(?:got|have|changed to) a new e-?mail(?: address)?[,:;]? (?:it's |its |it is )?
    (?P<v>[\w.+-]{1,64}@[\w-]{1,60}\.[\w.]{2,40}\w)
fact | children | | is {v}
    (?=an? (?:(?:single|proud|new) )?(?:mom|mum|dad|mother|father|parent|grandmother|grandfather) (?:of|to)\b)
fact | team | clause
    (?:we're|we are) (?=(?:an? )?(?:(?:small|large|big|young|remote|distributed) )?(?:team|family|group|company
    |startup|start-up|agency|non-?profit|department|school|couple)\b)
fact | budget | single sum | budget {v}
    (?:MY (?:total |overall |maximum |max |project |monthly |weekly )?budget(?: for [\w' -]{1,40}?)?(?: is|:
    | has been| was)(?: now| (?:raised|increased|cut|reduced|changed|lowered) to| around| about| set at| up to
    | roughly){0,2}|(?:we|I) (?:now )?have (?:a )?(?:total )?budget of|(?:we|I) can spend (?:up to|at most|around)
    |budget:)_
fact | budget | single sum | budget {v}
    (?:let's |please |we can |we should )?(?:raise|increase|lower|cut|reduce|change|set|make|bump|drop|bring)
    (?: the| our| my| that)? (?:total |overall )?budget(?: up| down)?(?: to| at)?_
fact | deadline | single | deadline {v}
    (?:let's |please |we can |we should )?(?:push|move|postpone|extend|shift|change|set|bring) (?:the|our|my)
    (?:[\w-]+ )?deadline(?: back| forward)? (?:to|until)_
fact | deadline | single | deadline {v}
    (?:MY (?:new |final |submission |project )?deadline(?: for [\w' -]{1,40}?)?(?: is|:| has been| was| got| moved)
    (?: now| (?:moved|pushed|extended|changed|postponed)(?: back)?(?: to)?| to| on){0,2}|(?:final |new )?deadline:
    |the (?:last|final|closing) (?:day|date) (?:for|to|of) [\w' -]{2,40}? is|(?:it|this|the [\w -]{2,30}) (?:is
    |must be|has to be|needs to be) (?:due|done|finished|ready|submitted|delivered) (?:on|by|before)?|(?:we
    |I) (?:need|have) (?:to (?:submit|deliver|finish|send|have) [\w' -]{1,40}?|it|this) by)_
fact | {x} | single clause
    MY (?P<x>(?:[\w'-]+ ){0,2}(?:<EVENTS>)(?: (?:in|with|for|about) [\w' ]{2,30}?)?)(?: is|'s| will be| has been
    | was| got)(?: now)?(?: (?:scheduled|set|planned|booked|moved|rescheduled|postponed|pushed|brought forward
    |confirmed)(?: back)?)? ?(?:for|on|at|to|until|in|from)? (?=(?:(?:early|late|mid|next|this|the) ?-?)?(?:\d|mon
    |tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|tomorrow|week|month|year|noon))
fact | {x} | single trait | {x}: {v}
    my (?P<x>(?:(?!favou?rite)[\w-]+ )?(?:<TRAITS>)) (?:is|are|was)
    (?: now| actually| currently| still| called| named)? (?!going|doing|getting|being|not
    |so |very |really |too |driving|making|giving|killing|acting)
fact | {x} | single clause named | {x}: {v}
    (?:our|the) (?P<x>(?:[\w-]+ ){0,2}(?:<THINGS>)(?: of (?:the|our) [\w ]{2,20}?)?) is (?:called |named )?(?!going
    |doing|getting|being|not |so |very |really |too )
fact | important | clause
    (?:one of )?(?:the|our|my|an?|another) ?(?:most )?(?:key|main|important|critical|crucial|central|primary|core
    |major|biggest|essential) (?:findings?|points?|facts?|results?|insights?|takeaways?|conclusions?|constraints?
    |requirements?|things?(?: to (?:know|remember|note))?|assumptions?|risks?)(?: (?:so far|here
    |of [\w' -]{1,40}?))?(?: is|:)(?: that| this:)?_
fact | important | clause full | {v}
    (?:(?:please )?(?:note|keep in mind|bear in mind|take note|be aware)(?: that|:)|(?:please )?(?:remember
    |don't forget)(?: that|:) (?!you\b|it\b|even\b|we\b|life\b|not\b)|(?:very )?important(?: note| fact| info)?[:!]
    |key (?:fact|point|finding|result|takeaway)s?:|(?:for the record|fyi|just so you know|for your information|nb
    |n\.b\.|note to self)[,:]|(?:useful|critical|key) fact:) ?(?!to\b|how\b|when\b)
fact | finding | clause full
    (?:the|our|a|this|my|his|her|their|one|another) (?:[\w-]+ ){0,2}(?:survey|study|report|analysis|data|audit
    |results?|experiment|tests?|review|research|paper|evidence|numbers|figures|poll|trial
    |measurements?) (?:clearly |also )?(?:shows?|showed|found|finds|suggests?|indicates?|indicated|revealed|reveals
    |confirms?|confirmed|proves?|proved|concluded|reported)(?: that)?_
fact | {x} | clause dated
    ^(?P<x>(?:the |our )?(?:[\w'-]+ ){0,3}?[\w'-]+) (?=(?:grew|fell|rose|increased|decreased|dropped|reached
    |amounted|stands?|stood|doubled|went (?:up|down)|totall?ed) (?:\w+ ){0,3}?[\d$€£])
fact | tool | clause
    (?:we|I|our team) ~use (?=(?-i:[A-Z])[\w.+#-]*(?: (?-i:[A-Z])[\w.+#-]*)*(?: and [A-Z]\w+)? (?:for|as|to|in
    |on)\b)
question | open | clause
    (?:we|I)(?:'re|'m| are| am)? ~(?:need|lack) (?<=still .{4} )(?!to (?:talk|go|see|do|be)\b)
question | open | clause
    (?:(?:we|I)(?:'re|'m| are| am) (?:still |currently |just )?(?:waiting (?:for|on|to hear)|awaiting
    |missing) |still (?:waiting (?:for|on)|missing|need|open|pending|unclear|to be (?:decided|confirmed
    |determined))[: ]|waiting (?:for|on) )(?!you\b|me\b)
question | open | clause
    (?:we|I) (?:still )?(?:don't (?:yet |actually )?know (?:yet )?|do not know (?:yet )?|haven't (?:yet )?(?:decided
    |figured out|settled|agreed|received|heard (?:back )?(?=from)|got (?!the chance|time|around)|chosen|confirmed
    |found out)|have not (?:yet )?(?:decided|received|agreed|confirmed|heard (?:back )?)
    |have (?:yet )?to (?:find out|figure out|clarify|determine)|(?:still )?need to (?:find out|clarify|figure out
    |determine|confirm|decide)) ?(?=.{3})(?!what to (?:say|do)|how to thank|why I|if I can)(?=(?:who|what|when|where
    |which|whether|how|if|why|on|the|about|from|between|yet|any|an?)\b)
question | open | clause
    (?:I'm|we're) (?:still )?(?:not (?:yet )?sure|unsure|undecided|not certain|unclear) (?:yet )?(?!(?:who|where
    |which \w+|when|whether) to\b|which to\b)(?=(?:who|when|where|which|whether)\b|(?<=yet )what\b)
question | open | clause
    (?:we|I) (?:still (?:don't|do not) have|(?:don't|do not) have) (?=.{3,80})(?=[^,]{3,80}\byet\b)
question | open | clause
    (?:we|I) still (?:don't|haven't) (?:have|got|received|seen|heard|chosen|picked|found|signed)_
question | open | clause
    (?:nobody|no one|none of us) (?:yet )?(?:knows|has decided|has confirmed) (?:yet )?(?=(?:who|what|when|where
    |which|whether|how|if|the|yet)\b)
question | open | clause
    (?:we|I) don't have (?=(?:the|any|an?|their|our) (?:[\w-]+ ){0,4}?(?:password|figures?|data|numbers?|address
    |contract|quote|invoice|answer|date|details|list|file|approval|signature|confirmation|access|results?|info
    |information|documents?|estimate|permit|visa)\b)
question | open | clause
    (?:it (?:still )?remains (?:to be seen|unclear|open|unknown)|(?:I|we) (?:still )?have no idea(?: yet)?) (?=
    (?:who|what|when|where|which|whether|how|if)\b)(?!what to|how to)
question | open | clause
    ^(?:still )?(?:need|awaiting|pending) (?=the|approval|confirmation|final|an? (?:quote|answer|reply|decision
    |signature)|feedback from|\w+ from)
question | open | clause | {v}
    (?:open|outstanding|unresolved|remaining|pending) (?:questions?|points?|issues?|items?)(?: is)?:?_
question | open | clause
    (?:missing(?: data:?| info(?:rmation)?:?|:)|to be (?:decided|confirmed|determined|clarified)|tbd|tbc|to ?do):?_
question | open | clause
    (?:it(?:'s| is)|that(?:'s| is)) (?:still )?(?:open|unclear|undecided|unknown|not (?:yet )?(?:clear|known
    |decided)) (?=(?:who|what|when|where|which|whether|how|if)\b)
"""
# Decisions and goals.
DECISION_RULES: Final = r"""
decision | | clause
    (?:let's |please |we(?:'ll| will)? |I(?:'ll| will)? )?(?:switch|migrate|change)(?:ed|d)? (?:the|our|my|from)
    (?:[\w.+#-]+ ){1,3}to (?=(?-i:[A-Z]))
decision | | clause
    (?:we|I|my \w+ and I|the (?:\w+ )?(?:team|board|committee|client|council|ministry|management|company|government
    |cabinet|department|director|minister|boss|manager|parliament|jury))(?:'ve| have
    | has)? (?:all |both |finally |already |now |just |jointly |unanimously ){0,2}(?:decided|agreed|opted|settled
    |concluded|resolved|voted)(?: that| on| to| for| upon| against)? (?!on,? |with (?:you|him|her|that|this)\b|yet\b
    |more\b|it would be)
decision | | clause
    (?:we|I|my \w+ and I|the (?:\w+ )?(?:team|board|committee|client|council|ministry|management|company|government
    |cabinet|department|director|minister|boss|manager|parliament|jury))(?:'ve| have
    | has)? (?:finally |already |now |just )?(?:chose|chosen|picked|selected|approved|signed off on|ruled out
    |rejected|declined|scrapped|cancell?ed|postponed|turned down) (?!(?:them|it|him|her|you|to|this|that|up|these
    |those|because)\b)
decision | | clause
    (?:we|I)(?:'ll| will|'re| are|'m| am)? (?:going to |definitely )?(?:gonna )?(?:go|going|stick|sticking|proceed
    |proceeding|stay|staying) (?:with|(?<=stick )to|(?<=sticking )to) (?!(?:this|that|my|him|her|them|you|me
    |the flow)\b)
decision | | clause
    let's (?:(?:just|all|actually|instead|now|rather) )?(?:(?:go|stick|proceed|start|move forward|stay|continue
    |work) with|use|adopt|switch (?:back )?to|move to|choose|pick|keep|drop|call it|name it|schedule|postpone|skip
    |target|make it (?=\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day|the |noon)|set|host|launch|deploy|go for|build
    |ship|write it in) (?!in (?:mind|touch)|\w+ing\b|our (?:fingers|eyes)|it (?:up|going|real)|each other|going\b
    |up\b|the (?:good|fun|conversation|chat)\b|it\b$|that\b$|a (?:date|time)\b)
decision | | clause
    (?:the |our |my )?(?:final )?(?:decision|agreement|verdict|choice)(?: is|:| was)(?: that| to)?_
decision | | clause
    (?:it(?:'s| is| was|'s been| has been) (?:now )?(?:decided|settled|agreed)(?: that|:| to)?|decided:|agreed:
    |approved:|final answer:|as (?:agreed|decided),)_
decision | | clause
    we(?!(?:'re| are) using)(?:'ll| will| shall|'re| are)(?: going to| gonna)? (?:now |be ){0,2}(?:use|using
    |adopt|adopting|host|hosting|launch|launching|deploy|deploying|migrate|migrating|switch|switching|drop|dropping
    |ship|shipping|build|building|charge|hire|hold|outsource|cancel|postpone|store|standardi[sz]e)_
decision | | clause
    we(?:'re| are)? (?:no longer|won't|will not|not going to
    |aren't) (?:using |use |be using |going with |go with |support |supporting |build |building )
decision | | clause
    (?:I|we)(?:'ll| will) (?=\w+ [^,]{2,60}\binstead\b)(?!try|see|be\b|have to)
decision | | clause
    I(?:'ll| will|'m going to| am going to) (?:take|pick|choose|book|use|buy|order) (?=option|plan
    |the [\w -]{2,30} (?:one|plan|option|version|package)|number \d)
decision | |  | {v} it is
    ^(?!here|there|this|that|what|how|as|yes|no\b|so|oh)(?!I\b)(?P<v>(?-i:[A-Z0-9])[\w'+#.-]{1,30}
    (?: [\w'+#.-]{1,30}){0,2}) it is(?=[,.!]|$)
intent | goal | clause
    the (?:aim|goal|objective|purpose|mission) of (?:my|our|the|this) [\w -]{2,40}? is to_
intent | goal | clause | goal: {v}
    (?:my|our) (?:main |ultimate |long-term |short-term |current |next |biggest |primary )?(?:goal|aim|plan
    |objective|dream|intention|ambition|target|new year's resolution|mission)(?: for [\w' -]{1,40}?)?(?: is|:)
    (?: to)? (?!the same|working|going)
intent | goal | clause goal
    (?:I|we)(?:'m|'re| am| are)? ~(?:planning|plan|intend|intending|aiming|aim|hoping|hope|trying|looking|preparing
    |training|saving up|saving|determined|want|need|have|wish|wanting|working|going) (?:to|on|for) <UNWANTED>
    (?=\w+ \w)
intent | goal | clause goal
    (?:I'd|we'd|I would|we would) (?:like|love) to <UNWANTED>(?=\w+ \w)
intent | goal | clause goal
    (?:our (?:[\w-]+ ){0,2}?[\w-]+|the (?:\w+ )?(?:team|board|committee|client|council|ministry|management|company
    |government|cabinet|department|director|minister|boss|manager|parliament|jury)) (?:aims?|plans?|intends?|wants?
    |hopes?|is planning|is aiming|is hoping|is going) to_
intent | goal | clause goal
    (?:I|we) ~(?:dream|am dreaming|'m dreaming) (?:of|about) (?=\w+ing)
intent | goal | clause goal
    (?:I'm|we're) ~(?:planning|(?:thinking (?:of|about)|considering) (?=\w+ing\b|an?\b)|looking into|organi[sz]ing
    |preparing|working on|building|developing|writing|designing|creating|moving to|launching|applying (?:for|to)
    |getting ready for) ?(?!it\b|that\b|this\b|you\b|them\b|about you)(?=\w+ ?\w)
"""
# Orders to the assistant.
ORDER_RULES: Final = r"""
preference | language | single | answers in {v}
    (?:<WISH>)?(?:answer|reply|respond|write|speak|talk)(?: to)?(?: me)?(?: always| only)? in (?P<v>
    (?-i:[A-Z])[a-z]{3,20})\b
preference | answer style | clause
    (?:<WISH>)?(?:keep|make|write|give me|format|structure) (?:it|(?:your |the |all |my )?(?:answers?|replies|reply
    |responses?|explanations?|emails?|messages?|summaries|output|things)) (?:in |as |to )?(?=(?:\w+ ){0,2}(?:short
    |brief|concise|simple|formal|informal|casual|detailed|bullet|plain|polite|friendly|technical|under|below|max
    |at most|one|two|three|short))
preference | answer style | clause
    ^(?:<WISH>)?(?:please )?(?:use|stick to|write in) (?=(?:\w+ )?(?:British|American|UK|US|simple|plain|formal
    |informal|standard|proper) (?:English|spelling|Arabic|French|German|language)\b)
preference | answer style | clause
    (?:<WISH>)?(?:answer|reply|respond|explain|write|talk)(?: to me| things| everything| your (?:answers
    |replies))? (?=(?:more )?(?:briefly|concisely|shortly|formally|informally|simply|in (?:bullet|short|one|two
    |three|a |plain|simple|full|at most|under|detail)|with (?:bullet|examples|short|more|fewer|no)
    |without |like |as if ))
preference | answer style | clause
    ^(?:please )?(?:don't|never|stop|avoid|no more|no) (?=(?:us(?:e|ing)|add(?:ing)?|includ(?:e|ing)|writ(?:e|ing)
    |send(?:ing)?|giv(?:e|ing)|call(?:ing)?|apologi[sz](?:e|ing)|repeat(?:ing)?|emojis?|jargon|bullet|tables?
    |exclamation)\b)(?!send me|give up)
preference | instruction | clause
    ^(?:please )?(?:from now on|in (?:the )?future|going forward|always|never)(?:,| please)? (?=
    (?:just )?<IMPERATIVE>\b|only |just |no )(?=[a-z]+ \w)(?!a\b|the\b|I\b|my\b|been\b|have\b|had\b|mind\b|thought\b
    |knew\b|seen\b|heard\b|good\b|great\b|nice\b|fun\b|here\b|happy\b|love\b|wanted\b|feel\b|felt\b|try|thought
    |gets?\b|makes?\b|looking|a\b|so\b|amazing|such|be\b|forget)
preference | units | single | uses {v} units
    (?:<WISH>)?(?:use|give me|show) (?:the )?(?P<v>metric|imperial|celsius|fahrenheit|kilomet(?:er|re)s|miles)\b
preference | format | clause
    ^(?:<WISH>)?(?:please )?(?:write|format|give|show|send|put|express|list|display|round|quote|spell)(?: me)?
    (?: all| the| my| your| any)? (?:dates?|times?|numbers?|prices?|amounts?|temperatures?|results?|summar(?:y|ies)
    |reports?|code|units?|figures|names|references|quotes|files?|updates?|distances?|measurements?)(?: always)? (?:in|as
    |with|using|to)_
preference | instruction | clause
    ^(?:please )?(?:don't|never) (?=(?:call|text|email|e-mail|schedule|book|wake|contact|assume|remind|suggest|recommend
    |offer|address|translate|shorten|change|touch|explain)\b)
preference | answer style
    ^(?:just |only |no )?(?P<v>(?:[\w-]+ ){1,3}(?:units|answers?|replies|emails|sentences|bullet points|format|spelling
    |seats?|language|English|Arabic)(?: only)?),? (?:please|for me|only)[.!]?$
preference | answer style | clause
    ^(?:please )?(?:spare me|skip|cut out|leave out|cut) (?=the \w+|all the|your )(?!the (?:line|cake|chase))
"""
# Weaker rules, tried where no other rule matches.
FALLBACK_RULES: Final = r"""
fact | {x} | single proper | {x}: {v}
    (?:our|my) (?P<x>(?:[\w'-]+ ){0,3}?[\w'-]+) is (?=(?-i:[A-Z][\w.]))(?!I\b)
fact | requirement | clause
    (?:the|our|my) (?:client|customer|boss|minister|director|team|manager|committee|users?|editor|professor
    |supervisor|landlord|sponsor|investors?) (?=(?:wants?|needs?|prefers?|requires?|expects?|insists?|hates?|likes?
    |asked for|demands?) )
fact | event | clause scheduled
    (?:I|we)(?:'ve got| have got| have)(?= (?:an?|my|our|the) (?:[\w-]+ ){0,3}?(?:<EVENTS>)\b)_
fact | children | clause
    (?:we're|we are|I'm|I am) (?=expecting (?:our|my|twins|a (?:baby|child|boy|girl))\b)
preference | dislikes | clause | does not want {v}
    I ~don't want (?=to (?:receive|get|use|share|work|travel|fly|drive|spend|eat|drink|live|pay) \w|any |more )
fact | {x} | single clause specific
    (?:our|my) (?P<x>(?:[\w'-]+ ){0,3}?[\w'-]+) (?=(?:runs?|starts?|ends?|expires?|opens?|closes?|begins?|costs?
    |uses?|has|have|holds?|weighs?|consists?|requires?|covers?|employs?|supports?|lasts|contains?|leaves|departs
    |arrives|lands|falls|renews?|sits?|serves?|is (?:on|open|valid|due|worth|in|at|from)) )
fact | {x} | single clause dated
    the (?P<x>(?:[\w'-]+ ){0,3}?[\w'-]+)(?: (?:with|for|of|from|in|at|between) [\w' -]{2,40}?)? (?=(?:starts?|ends?
    |expires?|opens?|closes?|begins?|costs?|weighs?|lasts|renews?|takes place|(?:is|are|was|will be) (?:open|valid
    |due|worth|scheduled|limited to|set to|from|between|available)|runs? (?:on|from|until)) )
fact | count | clause dated
    we ~(?=(?:have|pay|employ|sell|serve|own|run|produce|operate|ship|charge|store|host|spend
    |process) (?:\w+ ){0,3}?[\d$€£])
fact | count | clause
    there are (?=(?:[\w-]+ ){0,3}?(?:\d+|two|three|four|five|six|seven|eight|nine|ten|\w+teen|twenty|thirty|forty|fifty)
    [ ]\w+ (?:\w+ )?(?:in|on|at) (?:my|our|the)\b)
fact | {x} | clause dated
    the (?P<x>(?:company|ministry|school|office|team|warehouse|hospital|department|factory|hotel|library|building|server
    |project|book|report|package|product|shop|store|clinic|app|system|course|contract|hall|room))
    [ ](?=(?:has|have|holds|employs|owns|produces|sells|serves|stores|covers|includes|seats|contains|takes|processes) )
"""
