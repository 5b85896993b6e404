"""Words that say nothing about a session, in several languages: they never become tags."""

from __future__ import annotations

STOPWORDS: frozenset[str] = frozenset(
    """
    about above after again against also although always another anything around because been before
    being below between both came cannot come comes could couldn does doesn doing done down each
    either else enough even ever every everything from gets give given goes going good great have
    having hello here hers help hey into isn just keep know last least less let like little long
    look looks made make makes making many maybe mean means might more most much must need needs
    never next nice nothing okay once only other others over part perhaps please possible probably
    quite rather really right said same seem seems shall should shouldn show since some someone
    something soon still such sure take takes tell than thank thanks that their them then there
    these they thing things think this those though three through time times today told tomorrow
    twice under until upon used uses using very want wants wasn well went were what when where
    whether which while will with within without won would wouldn write wrote yeah yesterday your
    yours yourself work works working first second third aber alle allem allen aller alles andere
    auch bitte danke dann dass dein deine denn deren dich diese diesem diesen dieser dieses doch
    dort durch eben eine einem einen einer eines einmal etwas euch euer eure ganz geht gibt haben
    habe hast hatte hier ihnen ihre ihrem ihren immer jede jetzt kann kannst kein keine konnte
    können machen mein meine mich muss nach nicht nichts noch nur oder ohne sehr sein seine sich
    sind sollte über unser unsere viel vielleicht warum weil welche wenn werden wieder wird wollen
    würde zwischen alors aussi autre avec avez avoir bien bonjour cela cette ceux chez comme comment
    dans depuis deux donc elle elles encore entre être faire fait faut ils jamais leur leurs mais
    merci même moins mon nous parce peut plus pour pourquoi quand quel quelle quoi sans sera sont
    sous suis tout toute toutes très trop vers votre vous algo algunos ante antes aquí aunque bueno
    cada como cómo con cual cuando cuándo desde donde dónde ellos entonces eres esta está estaba
    estado estas este esto estos gracias hacer hasta hola luego mejor menos mismo mucho muchos nada
    nunca otra otro para pero poco porque puede puedo pues quiero quién saber según sido siempre
    sobre solo también tanto tengo tiene todo todos unas unos usted vamos
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
)
